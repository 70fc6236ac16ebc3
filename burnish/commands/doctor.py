"""`burnish sandbox doctor`: can this machine keep code in, by which walls, and does the self-test agree?"""

import asyncio
from collections.abc import Mapping, Sequence

import typer

from burnish.core.errors import SandboxError
from burnish.sandbox import backends, open_box, selftest, walls


def tell(lacking: Sequence[str]) -> int:
    """Print the walls, the backends and what the self-test tried; 0 if the default backend holds, else 1."""
    _tell_layers(walls.all_layers())
    _tell_backends(backends.available())
    if lacking:
        typer.echo("this machine cannot isolate code; missing:")
        for fault in lacking:
            typer.echo(f"  {fault}")
        return 1
    return _try_the_escapes()


def _tell_layers(found: Sequence[walls.Layer]) -> None:
    width = max(len(layer.name) for layer in found)
    for layer in found:
        typer.echo(f"{'active ' if layer.is_active else 'MISSING'}  {layer.name:<{width}}  {layer.state}")
    for way in dict.fromkeys(layer.way for layer in found if not layer.is_active and layer.way):
        names = ", ".join(layer.name for layer in found if layer.way == way)
        typer.echo(f"to get {names}: {way}")


def _tell_backends(found: Mapping[str, Sequence[str]]) -> None:
    for name, lacks in found.items():
        typer.echo(f"backend {name}: {'available' if not lacks else 'not here; ' + '; '.join(lacks)}")


def _try_the_escapes() -> int:
    try:
        asyncio.run(_open_once())
    except SandboxError as error:
        typer.echo(str(error))
        return 1
    for attempt in (*selftest.ATTEMPTS, "leave a daemon behind"):
        typer.echo(f"tried and held: {attempt}")
    typer.echo("this machine can isolate code: every part of the sandbox is there")
    return 0


async def _open_once() -> None:
    async with open_box(num_workers=1):
        pass
