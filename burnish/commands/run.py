"""`burnish run`: run a recipe, and say how to go on if it was stopped."""

import shlex
from collections.abc import Sequence
from pathlib import Path

import typer

from burnish.commands.manners import STOPPED
from burnish.core.recipe import Recipe
from burnish.stages.runner import run_recipe


def run_command(recipe: Recipe, path: Path, assignments: Sequence[str], runs: Path, resume: bool) -> int:
    """Run a recipe and return its exit code."""
    message = f"stopped; resume with: {resume_command(path, assignments, runs)}"
    try:
        return run_recipe(recipe, runs, resume=resume, stop_message=message)
    except KeyboardInterrupt:
        typer.echo(message, err=True)
        return STOPPED


def resume_command(path: Path, assignments: Sequence[str], runs: Path) -> str:
    """The command line that goes on with a stopped run."""
    words = ["burnish", "run", str(path)]
    words += [word for assignment in assignments for word in ("--set", assignment)]
    words += ["--runs", str(runs)] if runs != Path("runs") else []
    return shlex.join([*words, "--resume"])
