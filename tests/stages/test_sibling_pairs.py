"""Stored siblings as preferences: who is paired with whom, and that episodes of several turns teach offline too."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from burnish.core import metrics
from burnish.core.errors import ConfigError
from burnish.core.recipe import Recipe
from burnish.data import trajectory_files
from burnish.rollout.groups import Group
from burnish.stages.check import check_recipe
from burnish.stages.runner import run_recipe
from burnish.stages.sibling_pairs import pairs_of
from tests.stages.stored import trajectory

COLLECT = {"use": "rl", "num_steps": 2, "prompts_per_step": 4, "group_size": 8, "objective": "reinforce",
           "learning_rate": 1e-12}  # fmt: skip
PREFER = {"use": "preference", "data": "", "batch_size": 4, "learning_rate": 1e-3, "num_warmup": 0, "num_epochs": 2}


def replies(*scores: float | None) -> Group:
    return Group("0/0", "d", tuple(trajectory("1+1=", str(n), score, member=n) for n, score in enumerate(scores)))


@pytest.mark.parametrize(
    ("scores", "least_gap", "pairs"),
    [
        ([0.0, 1.0, 0.5, 0.25], 0.25, [(1, 0), (2, 3)]),
        ([0.0, 1.0, 0.5, 0.25], 0.5, [(1, 0)]),
        ([1.0, 0.0, 1.0], 0.5, [(0, 1)]),  # no reply is in two pairs
        ([1.0, None, 0.0], 0.5, [(0, 2)]),
        ([1.0, 1.0], 0.5, []),
    ],
)
def test_the_best_is_paired_with_the_worst_and_so_on(
    scores: list[float | None], least_gap: float, pairs: list[tuple[int, int]]
) -> None:
    found = pairs_of(replies(*scores), least_gap)
    assert [(better.member, worse.member) for better, worse in found] == pairs


def recipe(task: dict[str, Any], *stages: dict[str, Any]) -> Recipe:
    plain = {"name": "p", "seed": 1, "threads": 1, "model": {"name": "tiny"}, "tasks": [task]}
    return Recipe.model_validate(plain | {"stages": [*stages]})


def test_a_run_learns_to_prefer_what_scored_higher_among_its_own_siblings(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    members = [trajectory(f"{n}+1=", text, score, member=m) for n in (11, 12) for m, (text, score) in
               enumerate([("right", 1.0), ("wrong", 0.0), ("worse", 0.0)])]  # fmt: skip
    trajectory_files.write(tmp_path / "data" / "some.parquet", members)
    task = {"domain": "arithmetic", "num_eval": 2, "options": {"largest": 5}}
    stage = PREFER | {"data": str(tmp_path / "data"), "num_epochs": 8}
    run_recipe(recipe(task, stage), tmp_path, resume=False)
    rows = [row.values for row in metrics.read(tmp_path / "p" / "metrics.jsonl") if "margin" in row.values]
    assert len(rows) == 4 and rows[-1]["margin"] > rows[0]["margin"] + 0.01


GUESSES = {"domain": "tests.rollout.guessing_domain", "num_eval": 9}


@pytest.mark.parametrize(
    "stage",
    [
        PREFER | {"least_gap": 0.25},
        {"use": "offline", "objective": "awr", "learning_rate": 1e-3},
        {"use": "offline", "objective": "grpo@offline", "learning_rate": 1e-3},
    ],
    ids=["dpo", "awr", "grpo@offline"],
)
def test_episodes_of_several_turns_are_histories_like_others(stage: dict[str, Any], tmp_path: Path) -> None:
    learn = {"use": "sft", "num_examples": 9, "num_epochs": 40, "batch_size": 9, "learning_rate": 5e-3}
    run_recipe(recipe(GUESSES, learn, COLLECT, stage), tmp_path, resume=False)
    stored = [one for path in (tmp_path / "p" / "trajectories").glob("*") for one in trajectory_files.read(path)]
    assert max(len(one.steps) for one in stored) > 1
    rows = [row.values for row in metrics.read(tmp_path / "p" / "metrics.jsonl") if row.stage == f"2-{stage['use']}"]
    trained = sum(row.get("tokens_trained", 0) for row in rows)
    assert 0 < trained <= 2 * sum(one.num_sampled for one in stored)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "kto"}, "takes labelled replies, and histories give pairs"),
        ({"eval_data": "recipes/preference_tiny_eval.jsonl"}, "data are histories; leave it out"),
        ({"data": "recipes/preference_tiny.jsonl", "least_gap": 0.5}, "least_gap is of histories"),
        ({"data": "nowhere.parquet"}, "no trajectories in 'nowhere.parquet'"),
    ],
)
def test_options_that_do_not_fit_histories_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_recipe(recipe({"domain": "arithmetic", "num_eval": 2}, PREFER | options))


def test_siblings_that_are_too_alike_are_named(tmp_path: Path) -> None:
    alike = [trajectory("11+1=", "1", 0.5), replace(trajectory("11+1=", "2", 0.75), member=1)]
    trajectory_files.write(tmp_path / "a.parquet", alike)
    stage = PREFER | {"data": str(tmp_path / "a.parquet")}
    task = {"domain": "arithmetic", "num_eval": 2, "options": {"largest": 5}}
    with pytest.raises(ConfigError, match=r"no two of 2 stored replies to one prompt differ by least_gap = 0.5"):
        run_recipe(recipe(task, stage), tmp_path, resume=False)
