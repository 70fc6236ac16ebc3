"""`burnish run`: read the recipe, run it, and say how to go on if it was stopped."""

import shlex
from collections.abc import Sequence
from pathlib import Path

import typer

from burnish.commands.manners import STOPPED
from burnish.core.recipe import read_recipe
from burnish.stages.runner import run_recipe


def run_command(path: Path, assignments: Sequence[str], runs: Path, resume: bool) -> int:
    """Run a recipe and return its exit code."""
    recipe = read_recipe(path, assignments)
    try:
        exit_code = run_recipe(recipe, path, runs, resume)
    except KeyboardInterrupt:
        exit_code = STOPPED
    if exit_code == STOPPED:
        typer.echo(f"stopped; resume with: {resume_command(path, assignments, runs)}", err=True)
    return exit_code


def resume_command(path: Path, assignments: Sequence[str], runs: Path) -> str:
    """The command line that goes on with a stopped run."""
    words = ["burnish", "run", str(path)]
    words += [word for assignment in assignments for word in ("--set", assignment)]
    words += ["--runs", str(runs)] if runs != Path("runs") else []
    return shlex.join([*words, "--resume"])
