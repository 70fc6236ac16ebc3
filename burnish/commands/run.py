"""`burnish run`: how a stopped run goes on. Imports no torch, so that Ctrl-C is heard while torch is imported."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer

from burnish.commands.manners import STOPPED
from burnish.runtime.interrupt import leave_now, prompt_interrupt


@contextmanager
def resumable(command: str) -> Iterator[None]:
    """Within the block, Ctrl-C ends the process soon, with the command line that goes on with the run."""
    message = f"stopped; resume with: {command}"
    try:
        with prompt_interrupt(message=message):
            yield
    except KeyboardInterrupt:
        typer.echo(message, err=True)
        leave_now(STOPPED)


def resume_command(path: Path, assignments: Sequence[str], runs: Path) -> str:
    """The command line that goes on with a stopped run."""
    words = ["burnish", "run", str(path)]
    words += [word for assignment in assignments for word in ("--set", assignment)]
    words += ["--runs", str(runs)] if runs != Path("runs") else []
    return shlex.join([*words, "--resume"])
