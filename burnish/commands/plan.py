"""`burnish plan`: simulate a cluster, and fit one from a run."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import typer

from burnish.core.config import override, read_toml, validate
from burnish.core.errors import ConfigError
from burnish.plan.cluster import Cluster
from burnish.plan.compare import Variant, best, policies, splits
from burnish.plan.outcome import Outcome
from burnish.plan.simulate import simulate

_COLUMNS = ("", "tokens/s", "step s", "learner", "engines", "sandbox", "wasted", "bound", "length")
"""Shares of time in use, of tokens wasted, of the bound reached; the mean length of what trained."""


def simulate_command(
    path: Path, assignments: Sequence[str], *, with_policies: bool, with_splits: bool, as_json: bool
) -> None:
    """Simulate and print."""
    cluster = validate(Cluster, override(_read(path), list(assignments)), str(path))
    variants = list(policies(cluster)) if with_policies else [Variant("as given", simulate(cluster))]
    several = list(splits(cluster)) if with_splits else []
    if as_json:
        typer.echo(json.dumps({variant.name: _plain(variant.outcome) for variant in [*variants, *several]}, indent=2))
        return
    typer.echo(_table(variants))
    typer.echo(_sentences(variants[0].outcome))
    if several:
        typer.echo(_table(several))
        typer.echo(f"best split: {best(several).name}")


def _read(path: Path) -> dict[str, Any]:
    if path.suffix != ".json":
        return read_toml(path)
    try:
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {str(path)!r}: {error}; give what `burnish plan fit` printed") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{str(path)!r} is no JSON object; give what `burnish plan fit` printed")
    return cast(dict[str, Any], data)


def _plain(outcome: Outcome) -> dict[str, Any]:
    return asdict(outcome) | {"efficiency": outcome.efficiency, "tokens_per_s": outcome.tokens_per_s}


def _table(variants: Sequence[Variant]) -> str:
    rows: list[tuple[str, ...]] = [_COLUMNS]
    for name, outcome in variants:
        busy = (outcome.learner_busy, outcome.engines_busy, outcome.sandboxes_busy)
        shares = (*busy, outcome.wasted_share, outcome.efficiency)
        numbers = (f"{outcome.tokens_per_s:.0f}", f"{outcome.step_s:.1f}", *(f"{share:.1%}" for share in shares))
        rows.append((name, *numbers, f"{outcome.mean_length_trained:.0f}"))
    return "\n".join(f"{row[0]:<28}" + "".join(f"{cell:>9}" for cell in row[1:]) for row in rows)


def _sentences(outcome: Outcome) -> str:
    lags = ", ".join(f"{lag}: {count}" for lag, count in outcome.staleness.items()) or "none"
    ended = ", ".join(f"{why} {count}" for why, count in outcome.ended.items()) or "none"
    return (
        f"{outcome.num_batches} batches in {outcome.end_s:.0f} s, {outcome.num_rollouts} rollouts\n"
        f"no scheduler can be done before {outcome.bound_s:.0f} s (bound by {outcome.bound_by})\n"
        f"groups by versions that their oldest token lagged: {lags}\n"
        f"groups that did not train: {ended}"
    )
