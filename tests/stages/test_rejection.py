"""A stage that learns the policy's own right tries."""

from dataclasses import replace
from pathlib import Path

import pytest

from burnish.core import metrics
from burnish.core.errors import ConfigError
from burnish.core.recipe import Recipe
from burnish.core.types import Trajectory, Verdict
from burnish.data import trajectory_files
from burnish.stages.rejection import best
from burnish.stages.runner import run_recipe
from tests.stages.stored import trajectory


def tried(reply: str, score: float, outcome: float | None = None) -> Trajectory:
    parts = {} if outcome is None else {"outcome": outcome}
    return replace(trajectory("1+1=", reply, score), verdict=Verdict.scored(score, parts))


def test_of_one_task_the_best_distinct_right_tries_are_kept() -> None:
    tries = [tried("a", 0.7, 1.0), tried("b", 0.9, 0.0), tried("c", 0.8, 1.0), tried("c", 0.8, 1.0), tried("d", 0.6, 1)]
    assert [one.reply for one in best(tries, 2)] == ["c", "a"]
    assert best([tried("b", 0.9, 0.0)], 2) == []


RECIPE = {
    "name": "r", "threads": 1, "model": {"name": "tiny"}, "engine": {"max_rows": 8},
    "stages": [{"use": "rejection", "num_tasks": 6, "num_samples": 4, "learning_rate": 1e-2, "num_epochs": 8,
                "batch_size": 4, "num_warmup": 0}],
}  # fmt: skip


def test_what_was_right_is_learned_and_every_try_is_kept(tmp_path: Path) -> None:
    tasks = [{"domain": "tests.stages.hashed_domain:right", "num_eval": 2, "when_check_fails": "train_anyway"}]
    run_recipe(Recipe.model_validate(RECIPE | {"tasks": tasks}), tmp_path, resume=False)
    kept = [one for path in sorted((tmp_path / "r" / "trajectories").glob("*.parquet"))
            for one in trajectory_files.read(path)]  # fmt: skip
    assert len(kept) == 24 and {one.verdict.score for one in kept if one.verdict} == {0.0, 1.0}
    rows = metrics.read(tmp_path / "r" / "metrics.jsonl")
    (tries,) = [row.values for row in rows if row.stage == "0-rejection.tries"]
    assert tries["solved"] == sum(one.verdict.score or 0.0 for one in kept if one.verdict) / 24
    losses = [row.values["loss"] for row in rows if row.stage == "0-rejection"]
    assert losses[-1] < losses[0]


def test_where_no_try_is_right_the_stage_says_what_to_do(tmp_path: Path) -> None:
    tasks = [{"domain": "arithmetic", "num_eval": 2, "options": {"largest": 5}}]
    with pytest.raises(ConfigError, match="put sft before"):
        run_recipe(Recipe.model_validate(RECIPE | {"tasks": tasks}), tmp_path, resume=False)
