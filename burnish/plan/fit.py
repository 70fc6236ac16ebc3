"""A cluster file's numbers, fitted from a run folder: what that run would be in the simulator.

Lengths, verdict times, pass rates and failures are those of its trajectories, by domain. Times come from its
metrics by least squares without negative numbers. A token takes `a + b (n - 1)` seconds while n members run;
summed over a step in which all members begin together, that is `a longest + b (tokens - longest)`, two known
numbers a step. A training step takes `c + d tokens`.

Covered: the stage `rl` of one run, with `sample_and_judge_s`, `train_s`, `tokens_sampled` and `tokens_trained`
in its metrics. Not covered: steps whose members did not fit into the engine at once (the model takes them as if
they had), time for prompts.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from burnish.core import metrics
from burnish.core.errors import ConfigError
from burnish.core.run_folder import kept_recipe
from burnish.core.types import Trajectory
from burnish.data import trajectory_files
from burnish.plan.cluster import Cluster, DomainLoad, Engines, Learner
from burnish.plan.distributions import Empirical
from burnish.rollout.scheduler_config import SchedulerConfig

MOST_VALUES = 200
LEAST_S = 1e-6
MOST_UNDECIDED = 0.99
"""Where no verdict at all was scored, a simulation would have nothing to train on."""
NEEDED = ("sample_and_judge_s", "train_s", "tokens_sampled", "tokens_trained", "num_groups")


class Step(NamedTuple):
    """What one step measured."""

    longest: float
    tokens_sampled: float
    sample_s: float
    tokens_trained: float
    train_s: float


def fit(run: Path) -> Cluster:
    """Read a run folder; `ConfigError` where it has too little."""
    rows = [row for row in metrics.read(run / "metrics.jsonl") if all(name in row.values for name in NEEDED)]
    trajectories = [t for path in sorted((run / "trajectories").glob("*.parquet")) for t in trajectory_files.read(path)]
    if len(rows) < 3 or not trajectories:
        raise ConfigError(
            f"cannot fit {str(run)!r}: {len(rows)} training steps with {', '.join(NEEDED)} and {len(trajectories)} "
            "trajectories; at least 3 steps of stage 'rl' are needed"
        )
    groups = _groups(trajectories)
    steps = _steps(rows, groups)
    sampling = _nonnegative([(s.longest, s.tokens_sampled - s.longest) for s in steps], [s.sample_s for s in steps])
    learning = _nonnegative([(1.0, s.tokens_trained) for s in steps], [s.train_s for s in steps])
    recipe = kept_recipe(run)
    group_size = max(len(members) for members in groups)
    return Cluster(
        engines=Engines(
            num=1, slots=recipe.engine.max_rows, token_s=max(sampling[0], LEAST_S), token_s_per_member=sampling[1]
        ),
        learner=Learner(num=1, step_s=learning[0], token_s=max(learning[1], LEAST_S)),
        num_sandboxes=recipe.sandbox.num_workers,
        domains=_domains(groups),
        scheduler=SchedulerConfig(
            batch_groups=max(1, round(float(np.median([row.values["num_groups"] for row in rows])))),
            group_size=group_size,
            num_batches=len(rows),
            needs_signal=group_size > 1,
        ),
    )


def _groups(trajectories: Sequence[Trajectory]) -> list[list[Trajectory]]:
    """By group, in the order of their draws."""
    by_group: defaultdict[str, list[Trajectory]] = defaultdict(list)
    for trajectory in trajectories:
        by_group[trajectory.group_id].append(trajectory)
    return [by_group[group_id] for group_id in sorted(by_group)]


def _steps(rows: Sequence[metrics.Row], groups: Sequence[Sequence[Trajectory]]) -> list[Step]:
    """Steps take draws in order: as many groups each as they trained and dropped."""
    steps: list[Step] = []
    first = 0
    for row in rows:
        num = int(row.values["num_groups"] + row.values.get("num_groups_without_signal", 0))
        lengths = [member.num_sampled for members in groups[first : first + num] for member in members]
        first += num
        if lengths:
            steps.append(
                Step(max(lengths), sum(lengths), row.values["sample_and_judge_s"],
                     row.values["tokens_trained"], row.values["train_s"])
            )  # fmt: skip
    return steps


def _nonnegative(rows: Sequence[tuple[float, float]], values: Sequence[float]) -> tuple[float, float]:
    """Least squares for two coefficients; where one came out negative it is 0 and the other is fitted alone."""
    matrix, target = np.asarray(rows, dtype=np.float64), np.asarray(values, dtype=np.float64)
    first, second = (float(value) for value in np.linalg.lstsq(matrix, target, rcond=None)[0])
    if first >= 0 and second >= 0:
        return first, second
    kept = 1 if first < 0 else 0
    column = matrix[:, kept]
    alone = max(0.0, float(column @ target / (column @ column)))
    return (0.0, alone) if kept else (alone, 0.0)


def _domains(groups: Sequence[Sequence[Trajectory]]) -> list[DomainLoad]:
    by_domain: defaultdict[str, list[Sequence[Trajectory]]] = defaultdict(list)
    for members in groups:
        by_domain[members[0].task_id.split("/")[0]].append(members)
    return [_domain(name, several) for name, several in sorted(by_domain.items())]


def _domain(name: str, groups: Sequence[Sequence[Trajectory]]) -> DomainLoad:
    members = [member for several in groups for member in several]
    lengths = [float(member.num_sampled) for member in members]
    undecided = sum(member.verdict is None or member.verdict.kind != "scored" for member in members)
    return DomainLoad(
        name=re.sub(r"[^\w.-]", "_", name),
        weight=float(len(groups)),
        lengths=Empirical(values=_thinned(lengths)),
        max_tokens=int(max(lengths)),
        alike=_alike([[float(member.num_sampled) for member in several] for several in groups]),
        verify_s=Empirical(values=_thinned([member.verify_s for member in members])),
        pass_rates=_thinned([rate for several in groups if (rate := _pass_rate(several)) is not None]) or [0.5],
        undecided_share=min(undecided / len(members), MOST_UNDECIDED),
    )


def _pass_rate(members: Sequence[Trajectory]) -> float | None:
    scores = [m.verdict.score for m in members if m.verdict is not None and m.verdict.score is not None]
    return sum(scores) / len(scores) if scores else None


def _thinned(values: Sequence[float]) -> list[float]:
    """At most `MOST_VALUES` of them, evenly over their order; the largest is always among them."""
    ordered = sorted(values)
    if len(ordered) <= MOST_VALUES:
        return ordered
    return [ordered[(i + 1) * len(ordered) // MOST_VALUES - 1] for i in range(MOST_VALUES)]


def _alike(groups: Sequence[Sequence[float]]) -> float:
    """The share of the variance of log lengths that lies between groups (one-way analysis of variance)."""
    logs = [np.log(np.maximum(np.asarray(group), 1.0)) for group in groups if len(group) > 1]
    if len(logs) < 2:
        return 0.0
    within = float(np.mean([group.var(ddof=1) for group in logs]))
    size = float(np.mean([len(group) for group in logs]))
    between = max(0.0, float(np.var([group.mean() for group in logs], ddof=1)) - within / size)
    return between / (between + within) if between + within > 0 else 0.0
