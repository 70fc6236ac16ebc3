"""A cluster file's numbers, fitted from a run folder: what a stage `rl` of that run would be in the simulator.

Lengths, verdict times, pass rates and failures are those of its trajectories, by domain. Times are least squares
without negative numbers, brought to the true sum. A token takes `a + b (n - 1)` seconds while n members run. A training
step takes `c + d tokens`, and the engines stand still meanwhile, since one process does both.

- Synchronous steps: the members of a wave begin together, so sampling takes `a longest + b (tokens - longest)`.
- Asynchronous steps: the ledger's log says which members were in the engine at which engine step, so k engine steps
  of m tokens in all take `a k + b (m - k)`.

How long a reply waited for its verdict includes the queue, which the simulator has of its own, and what the host cost
it on its way. Where the metrics say what verdicts took, waits are scaled: to that mean where all sandboxes were always
busy, not at all where none was, and between the two in proportion. Those that were joined to an equal question waited
as long.

Covered: engine `local` in the run's own process. Not covered: replicas and servers (refused); synchronous steps whose
members did not fit into the engine at once (the model takes them as if they had); that a synchronous step replaces
groups without signal wave by wave (the simulator begins each when it is needed); time for prompts, which is part of a
token's time; checkpoints.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from burnish.core import metrics
from burnish.core.errors import ConfigError
from burnish.core.recipe import Recipe
from burnish.core.run_folder import kept_recipe
from burnish.core.types import Trajectory
from burnish.data import trajectory_files
from burnish.plan.cluster import Cluster, DomainLoad, Engines, Learner
from burnish.plan.distributions import Empirical
from burnish.plan.fit_steps import NEEDED, asynchronous, rows_of, step_s, synchronous
from burnish.rollout.scheduler_config import SchedulerConfig

_WALL_MS = re.compile(r"verify/.*/wall_ms")
MOST_VALUES = 200
LEAST_S = 1e-6
LEAST_STEPS = 3
MOST_UNDECIDED = 0.99
"""Where no verdict at all was scored, a simulation would have nothing to train on."""


def fit(run: Path, position: int, scheduler: SchedulerConfig) -> Cluster:
    """Read what the stage at that position of the recipe left; `ConfigError` where it is too little."""
    recipe = kept_recipe(run)
    _refuse_others(recipe)
    stage = f"{position}-{recipe.stages[position]['use']}"
    rows = rows_of(run, stage)
    files = sorted((run / "trajectories").glob(f"{stage}-step-*.parquet"))
    groups = _groups([trajectory for path in files for trajectory in trajectory_files.read(path)])
    if len(rows) < LEAST_STEPS or not groups:
        raise ConfigError(
            f"cannot fit stage {stage!r} of {str(run)!r}: {len(rows)} training steps with {', '.join(NEEDED)} and "
            f"{len(groups)} groups of trajectories; at least {LEAST_STEPS} steps of stage 'rl' are needed"
        )
    slots = recipe.engine.max_rows
    if scheduler.max_staleness:
        spells = asynchronous(run, position, slots, rows)
    else:
        spells = synchronous(rows, groups, scheduler.batch_groups)
    sampling = _nonnegative([(spell.first, spell.second) for spell in spells], [spell.took_s for spell in spells])
    learning = _nonnegative(
        [(1.0, row.values["tokens_trained"]) for row in rows], [row.values["train_s"] for row in rows]
    )
    num_sandboxes = recipe.runtime.verifier_workers or recipe.sandbox.num_workers
    return Cluster(
        engines=Engines(num=1, slots=slots, token_s=max(sampling[0], LEAST_S), token_s_per_member=sampling[1]),
        learner=Learner(num=1, step_s=learning[0], token_s=max(learning[1], LEAST_S), shares_engines=True),
        num_sandboxes=num_sandboxes,
        domains=_domains(groups, rows, _busy_share(rows, num_sandboxes)),
        scheduler=scheduler.model_copy(update={"num_batches": len(rows)}),
    )


def _refuse_others(recipe: Recipe) -> None:
    if recipe.engine.use != "local" or recipe.runtime.engine_replicas:
        raise ConfigError(
            f"cannot fit a run whose engine is {recipe.engine.use!r} with runtime.engine_replicas = "
            f"{recipe.runtime.engine_replicas}: nothing says what its engine steps took; fit a run with engine.use = "
            '"local" and no replicas, and write the engines of the cluster into the file'
        )


def _groups(trajectories: Sequence[Trajectory]) -> list[list[Trajectory]]:
    """By group, in the order of their draws."""
    by_group: defaultdict[str, list[Trajectory]] = defaultdict(list)
    for trajectory in trajectories:
        by_group[trajectory.group_id].append(trajectory)
    return [by_group[group_id] for group_id in sorted(by_group)]


def _nonnegative(rows: Sequence[tuple[float, float]], values: Sequence[float]) -> tuple[float, float]:
    """Least squares for two coefficients that give the true sum; where one came out negative it is 0."""
    matrix, target = np.asarray(rows, dtype=np.float64), np.asarray(values, dtype=np.float64)
    first, second = (float(value) for value in np.linalg.lstsq(matrix, target, rcond=None)[0])
    if first < 0 or second < 0:
        first, second = (0.0, 1.0) if first < 0 else (1.0, 0.0)
    scale = float(target.sum()) / max(first * float(matrix[:, 0].sum()) + second * float(matrix[:, 1].sum()), LEAST_S)
    return first * scale, second * scale


def _busy_share(rows: Sequence[metrics.Row], num_sandboxes: int) -> float:
    """The share of all sandboxes' time in which verdicts were found."""
    found = [value for row in rows for name, value in row.values.items() if _WALL_MS.fullmatch(name)]
    passed_s = sum(step_s(row.values) for row in rows)
    return min(1.0, sum(found) / 1000 / (num_sandboxes * passed_s)) if passed_s else 0.0


def _domains(
    groups: Sequence[Sequence[Trajectory]], rows: Sequence[metrics.Row], busy_share: float
) -> list[DomainLoad]:
    by_domain: defaultdict[str, list[Sequence[Trajectory]]] = defaultdict(list)
    for members in groups:
        by_domain[members[0].task_id.split("/")[0]].append(members)
    return [_domain(name, several, _verdict_s(name, rows), busy_share) for name, several in sorted(by_domain.items())]


def _verdict_s(domain: str, rows: Sequence[metrics.Row]) -> float | None:
    """What a verdict took on average, time in the queue aside; None where the metrics do not say."""
    names = ("wall_ms", "num_paid", "num_joined", "num_verdicts")
    wall_ms, num_paid, num_joined, num = (
        sum(row.values.get(f"verify/{domain}/{name}", 0.0) for row in rows) for name in names
    )
    return wall_ms / 1000 / num_paid * (num_paid + num_joined) / num if num_paid else None


def _domain(
    name: str, groups: Sequence[Sequence[Trajectory]], verdict_s: float | None, busy_share: float
) -> DomainLoad:
    members = [member for several in groups for member in several]
    lengths = [float(member.num_sampled) for member in members]
    undecided = sum(member.verdict is None or member.verdict.kind != "scored" for member in members)
    return DomainLoad(
        name=re.sub(r"[^\w.-]", "_", name),
        weight=float(len(groups)),
        lengths=Empirical(values=_thinned(lengths)),
        max_tokens=int(max(lengths)),
        alike=_alike([[float(member.num_sampled) for member in several] for several in groups]),
        verify_s=Empirical(values=_thinned(_scaled([member.verify_s for member in members], verdict_s, busy_share))),
        pass_rates=_thinned([rate for several in groups if (rate := _pass_rate(several)) is not None]) or [0.5],
        undecided_share=min(undecided / len(members), MOST_UNDECIDED),
    )


def _scaled(waits_s: Sequence[float], mean_s: float | None, share: float) -> Sequence[float]:
    """The waits, brought nearer to that mean by that share if it is below theirs."""
    waited_s = sum(waits_s) / len(waits_s)
    if mean_s is None or mean_s >= waited_s:
        return waits_s
    return [wait_s * (1 - share + share * mean_s / waited_s) for wait_s in waits_s]


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
