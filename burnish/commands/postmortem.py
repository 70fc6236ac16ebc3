"""`burnish postmortem`: how a run ended, and if by a fault, what it was doing. Imports no torch and needs no model."""

import math
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import typer

from burnish.core import flight, metrics
from burnish.core.errors import RunFolderError
from burnish.core.ledger import Ledger
from burnish.core.run_folder import kept_recipe
from burnish.core.types import Trajectory
from burnish.core.visible import visible

NUM_ROWS = 8
SHOWN = ("loss", "grad_norm", "entropy", "mismatch", "learning_rate", "tokens_trained")
MOST_REPLY = 160
ALARM = "/process_alarm"


def postmortem(run: Path) -> None:
    """Print how the run ended; a `RunFolderError` if the folder holds none."""
    if not (run / "ledger.sqlite").exists():
        raise RunFolderError(f"no run in {str(run)!r}; give a run folder, for example runs/quickstart")
    typer.echo(_ending(run))
    found = flight.newest(run)
    if found is None:
        typer.echo("no fault was recorded (after a kill or a power cut there is no time to)")
    else:
        _tell_fault(*found)
    _tell_metrics(run)


def _ending(run: Path) -> str:
    recipe = kept_recipe(run)
    ledger = Ledger(run / "ledger.sqlite")
    try:
        done = [position for position in range(len(recipe.stages)) if ledger.stage_result(position) is not None]
        wall_s, last_seen = ledger.wall_s(), ledger.last_seen()
    finally:
        ledger.close()
    total = f"{len(done)} of {len(recipe.stages)} stages done, {wall_s:.0f} s of work"
    if len(done) == len(recipe.stages):
        return f"run {recipe.name!r} is finished: {total}"
    when = f", last seen {_clock(last_seen)}" if last_seen else ""
    return f"run {recipe.name!r} stopped in stage {len(done)}-{recipe.stages[len(done)]['use']}: {total}{when}"


def _tell_fault(path: Path, record: flight.FlightRecord) -> None:
    typer.echo(f"\nfault of {_clock(record.unix_s)} in {record.stage} ({path}, burnish {record.burnish})")
    typer.echo(f"{record.error}: {visible(record.message)}")
    typer.echo("\n" + visible(record.traceback.rstrip()))
    others = {name: stack for name, stack in record.stacks.items() if not name.startswith("MainThread")}
    for name, stack in others.items():
        where = [line.strip() for line in stack.splitlines() if line.lstrip().startswith("File ")]
        typer.echo(f"\nthread {name} was at\n{visible(where[-1] if where else 'no place that is known')}")
    for step in record.steps:
        _tell_step(step)


def _tell_step(step: flight.FlightStep) -> None:
    members = [Trajectory.from_json(row) for row in step.rollouts]
    kinds = Counter(member.verdict.kind if member.verdict else "not judged" for member in members)
    versions = sorted({version for member in members for version in (member.oldest_version, member.newest_version)})
    typer.echo(
        f"\n{step.stage} step {step.step}, weights of version {step.version}: {len(members)} rollouts sampled by "
        f"versions {versions}; verdicts {dict(kinds)}"
    )
    for line in _odd(members):
        typer.echo(f"  odd: {line}")
    for member in _extremes(members):
        score = f"{member.verdict.score:.2f}" if member.verdict and member.verdict.score is not None else "no score"
        typer.echo(f"  {member.group_id}.{member.member} {score}: {visible(member.reply[:MOST_REPLY])!r}")


def _odd(members: Sequence[Trajectory]) -> list[str]:
    """What no sound rollout has."""
    found: list[str] = []
    for member in members:
        where = f"{member.group_id}.{member.member}"
        bad = [at for at, value in enumerate(member.logprobs) if not math.isfinite(value) or value > 1e-6]
        if bad:
            found.append(f"{where}: log-probability {member.logprobs[bad[0]]} at token {bad[0]}")
        if not member.num_sampled:
            found.append(f"{where}: no token was sampled")
    return found


def _extremes(members: Sequence[Trajectory]) -> list[Trajectory]:
    """The rollouts with the least and the most likely replies: what goes wrong shows there first."""
    sampled = [member for member in members if member.num_sampled]
    if len(sampled) < 2:
        return sampled
    by_mean = sorted(sampled, key=lambda member: sum(member.logprobs) / member.num_sampled)
    return [by_mean[0], by_mean[-1]]


def _tell_metrics(run: Path) -> None:
    rows = metrics.read(run / "metrics.jsonl")[-NUM_ROWS:] if (run / "metrics.jsonl").exists() else []
    for domain in sorted({domain for row in rows for domain in _alarmed(row)}):
        typer.echo(f"\nalarm: failures of {domain!r} collect process parts, and no more of its tasks are solved")
    names = [name for name in SHOWN if any(name in row.values for row in rows)]
    if not names:
        return
    typer.echo("\nnewest metrics")
    typer.echo(f"{'stage':<14}{'step':>6}" + "".join(f"{name:>16}" for name in names))
    for row in rows:
        cells = [f"{row.values[name]:>16.4g}" if name in row.values else f"{'':>16}" for name in names]
        typer.echo(f"{row.stage:<14}{row.step:>6}" + "".join(cells))


def _alarmed(row: metrics.Row) -> list[str]:
    """The domains whose process parts were farmed (docs/mixing_domains.md)."""
    names = [name.removeprefix("reward/") for name, value in row.values.items() if value == 1]
    return [name.removesuffix(ALARM) for name in names if name.endswith(ALARM)]


def _clock(unix_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(unix_s))
