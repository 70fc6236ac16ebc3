"""`burnish sandbox doctor`: can this machine keep code in?"""

import typer

from burnish.sandbox import missing


def doctor() -> int:
    """Print what is missing; 0 if nothing is."""
    faults = missing()
    if not faults:
        typer.echo("this machine can isolate code: every part of the sandbox is there")
        return 0
    typer.echo("this machine cannot isolate code; missing:")
    for fault in faults:
        typer.echo(f"  {fault}")
    return 1
