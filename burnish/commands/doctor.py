"""`burnish sandbox doctor`: can this machine keep code in?"""

from collections.abc import Sequence

import typer


def tell(lacking: Sequence[str]) -> int:
    """Print what is missing; 0 if nothing is, else 1."""
    if not lacking:
        typer.echo("this machine can isolate code: every part of the sandbox is there")
        return 0
    typer.echo("this machine cannot isolate code; missing:")
    for fault in lacking:
        typer.echo(f"  {fault}")
    return 1
