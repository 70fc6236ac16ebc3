"""A cluster file's numbers, fitted from a run folder: what a stage `rl` of that run would be in the simulator.

Groups are those of its trajectories, whole: lengths, answers and verdicts as they came together (`fit_groups`). Times
are least squares without negative numbers, brought to the true sum. A token takes `a + b (n - 1)` seconds while n
members run. A training step takes `c + d tokens`, and the engines stand still meanwhile, since one process does both.

- Synchronous steps: the members of a wave begin together, so sampling takes `a longest + b (tokens - longest)`.
- Asynchronous steps: the ledger's log says which members were in the engine at which engine step, so k engine steps
  of m tokens in all take `a k + b (m - k)`.

Covered: engine `local` in the run's own process. Not covered: replicas and servers (refused); synchronous steps whose
members did not fit into the engine at once (the model takes them as if they had); that a synchronous step replaces
groups without signal wave by wave (the simulator begins each when it is needed); time for prompts, which is part of a
token's time; checkpoints.
"""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from burnish.core.errors import ConfigError
from burnish.core.recipe import Recipe
from burnish.core.run_folder import kept_recipe
from burnish.core.types import Trajectory
from burnish.data import trajectory_files
from burnish.plan.cluster import Cluster, Engines, Learner
from burnish.plan.fit_groups import domain_loads
from burnish.plan.fit_steps import NEEDED, asynchronous, failed_attempts, moments_of, rows_of, synchronous
from burnish.rollout.scheduler_config import SchedulerConfig

LEAST_S = 1e-6
LEAST_STEPS = 3


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
    moments = moments_of(run, position) if scheduler.max_staleness else []
    if scheduler.max_staleness:
        spells = asynchronous(moments, slots, rows)
    else:
        spells = synchronous(rows, groups, scheduler.batch_groups)
        scheduler = scheduler.model_copy(update={"num_retries": 0})  # the synchronous loop knows no new attempts
    sampling = _nonnegative([(spell.first, spell.second) for spell in spells], [spell.took_s for spell in spells])
    trained = [row.values for row in rows if row.values["num_groups"]]
    learning = _nonnegative(
        [(1.0, values["tokens_trained"]) for values in trained], [values["train_s"] for values in trained]
    )
    return Cluster(
        engines=Engines(num=1, slots=slots, token_s=max(sampling[0], LEAST_S), token_s_per_member=sampling[1]),
        learner=Learner(num=1, step_s=learning[0], token_s=max(learning[1], LEAST_S), shares_engines=True),
        num_sandboxes=recipe.runtime.verifier_workers or recipe.sandbox.num_workers,
        domains=domain_loads(groups, scheduler, failed_attempts(moments, position)),
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
