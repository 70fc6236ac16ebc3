"""Trajectories as Parquet, for analysis and for training offline later: one row a trajectory.

Log-probabilities are stored bit for bit (float64); a verdict's parts, changes of version and an episode's steps
are JSON text.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from burnish.core.errors import ConfigError
from burnish.core.run_folder import write_whole
from burnish.core.types import Trajectory, Verdict, changes_from_json, steps_from_json


def write(path: Path, trajectories: Sequence[Trajectory]) -> None:
    """Write a file that is whole or absent."""
    table = pa.Table.from_pylist([_row(trajectory) for trajectory in trajectories])
    write_whole(path, lambda temporary: pq.write_table(table, temporary, compression="zstd"))


def read(path: Path) -> list[Trajectory]:
    """The inverse of `write`; `ConfigError` if the file is none that `write` wrote."""
    try:
        return [_trajectory(row) for row in pq.read_table(path).to_pylist()]
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"cannot read trajectories from {str(path)!r}: {error}; expected a Parquet file that stage 'rl' wrote"
        ) from error


def _row(trajectory: Trajectory) -> dict[str, Any]:
    verdict = trajectory.verdict
    assert verdict is not None
    plain = asdict(trajectory) | {"verdict": verdict.kind, "score": verdict.score, "evidence": verdict.evidence}
    plain |= {"parts": json.dumps(dict(verdict.parts)), "verdict_from_cache": verdict.from_cache}
    plain |= {"verdict_took_s": verdict.took_s}
    plain |= {"version_changes": json.dumps(plain["version_changes"]) if trajectory.version_changes else ""}
    return plain | {"steps": json.dumps(plain["steps"]) if trajectory.steps else ""}


def _trajectory(row: dict[str, Any]) -> Trajectory:
    parts = json.loads(row.pop("parts"))
    verdict = Verdict(
        kind=row.pop("verdict"), score=row.pop("score"), evidence=row.pop("evidence"), parts=parts,
        from_cache=row.pop("verdict_from_cache", False), took_s=row.pop("verdict_took_s", 0.0),
    )  # fmt: skip
    for name in ("token_ids", "was_sampled", "logprobs"):
        row[name] = tuple(row[name])
    steps = steps_from_json(json.loads(row.pop("steps", "") or "[]"))
    changes = changes_from_json(json.loads(row.pop("version_changes", "") or "[]"))
    return Trajectory(**row, verdict=verdict, steps=steps, version_changes=changes)
