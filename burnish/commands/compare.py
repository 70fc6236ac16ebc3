"""`burnish compare`: who is better where, with p-values, and which tasks flipped."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import typer
from rich.table import Table

from burnish.core.errors import ConfigError
from burnish.core.visible import visible
from burnish.evals.comparison import SuiteComparison, compare_runs
from burnish.evals.runs import EvalRun, Store, from_json
from burnish.stages.terminal import terminal

MOST_SHOWN = 70


def compare_command(first: str, second: str, words: Sequence[str], *, most_flips: int, as_json: bool) -> None:
    """Compare what was kept of two models, and print it."""
    a, b = _runs(first, words), _runs(second, words)
    compared = compare_runs(a, b)
    if as_json:
        typer.echo(json.dumps([{**asdict(one), "better": one.better} for one in compared], indent=2))
        return
    console = terminal()
    console.print(_table(first, second, compared))
    for one in compared:
        _print_flips(one, most_flips)


def _runs(model: str, words: Sequence[str]) -> Mapping[str, EvalRun]:
    """A file of results, or the newest ones of a model on each suite."""
    path = Path(model)
    if path.suffix == ".json" and path.is_file():
        run = from_json(path.read_text(encoding="utf-8"), model)
        found = {run.suite: run}
    else:
        found = Store().of(model)
    if not found:
        raise ConfigError(
            f"nothing is kept of {model!r}; evaluate it first: burnish eval {model}, give the name that it was "
            "evaluated under, the start of its fingerprint, or a file of results"
        )
    missing = [word for word in words if Path(word).stem not in found]
    if missing:
        raise ConfigError(
            f"{model!r} was not evaluated on {missing[0]!r}, but on: {', '.join(found)}; burnish eval {model} --suite "
            f"{missing[0]}"
        )
    wanted = {Path(word).stem for word in words} or set(found)
    return {name: run for name, run in found.items() if name in wanted}


def _table(first: str, second: str, compared: Sequence[SuiteComparison]) -> Table:
    shown = Table(title=f"A = {first}\nB = {second}")
    for heading in ("suite", "A", "B", "B - A", "95 % interval", "p (Holm)", "better", "detectable", "tasks", "flips"):
        shown.add_column(heading, justify="left" if heading in ("suite", "better") else "right")
    for one in compared:
        change = one.comparison.difference
        lost = sum(flip.after < flip.before for flip in one.flips)
        shown.add_row(
            one.suite, f"{one.comparison.before.mean:.3f}", f"{one.comparison.after.mean:.3f}", f"{change.mean:+.3f}",
            f"{change.low:+.3f} to {change.high:+.3f}", f"{one.adjusted_p:.2g}", one.better or "not clear",
            f"{one.detectable:.3f}", str(change.n), f"+{len(one.flips) - lost} -{lost}",
        )  # fmt: skip
    return shown


def _print_flips(one: SuiteComparison, most: int) -> None:
    for flip in one.flips[:most]:
        typer.echo(f"{one.suite}: {flip.task_id}: {flip.before:.2g} -> {flip.after:.2g}")
        typer.echo(f"  A: {visible(flip.before_reply[:MOST_SHOWN])!r}\n  B: {visible(flip.after_reply[:MOST_SHOWN])!r}")
    if len(one.flips) > most:
        typer.echo(f"{one.suite}: {len(one.flips) - most} more flipped; --flips {len(one.flips)} shows all")
