"""Runs whose tasks take several turns: oracles are learned, turns are kept and shown, and a kill loses no episode."""

import json
import sqlite3
from pathlib import Path

import pytest

from burnish.core import metrics
from burnish.core.recipe import Recipe
from burnish.data import trajectory_files
from burnish.stages.runner import run_recipe
from tests.stages.killed import KilledRun

RECIPE = """
name = "broken"
seed = 2
threads = 1
model = { name = "tiny" }
episodes = { max_open = 8 }
tasks = [{ domain = "tests.rollout.guessing_domain", num_eval = 9 }]
stages = [
  { use = "rl", num_steps = 3, prompts_per_step = 2, group_size = 4, checkpoint_every = 2, objective = "reinforce" },
]
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("runs")
    recipe = {
        "name": "guess", "seed": 1, "threads": 1, "model": {"name": "tiny"},
        "tasks": [{"domain": "tests.rollout.guessing_domain", "num_eval": 9}],
        "stages": [
            {"use": "evaluate"},
            {"use": "sft", "num_examples": 9, "num_epochs": 100, "batch_size": 9, "learning_rate": 5e-3},
            {"use": "evaluate"},
            {"use": "rl", "num_steps": 6, "prompts_per_step": 4, "group_size": 8, "learning_rate": 1e-3,
             "credit": "turn"},
            {"use": "evaluate"},
            {"use": "report"},
        ],
    }  # fmt: skip
    run_recipe(Recipe.model_validate(recipe), runs, resume=False)
    return runs / "guess"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_tiny_model_learns_to_work_in_several_turns(finished: Path) -> None:
    summary = json.loads((finished / "reports" / "summary.json").read_text())
    domain = summary["domains"]["tests.rollout.guessing_domain"]
    assert domain["before"]["mean"] < 0.2 and domain["after"]["mean"] > 0.4
    rows = [row.values for row in metrics.read(finished / "metrics.jsonl") if row.stage == "3-rl"]
    assert all("episode/turns" in values for values in rows)


@pytest.mark.slow
def test_trajectories_of_a_run_have_their_turns_and_the_report_shows_them(finished: Path) -> None:
    trained = [one for path in (finished / "trajectories").glob("*.parquet") for one in trajectory_files.read(path)]
    assert trained and all(one.steps for one in trained)
    assert max(len(one.steps) for one in trained) > 1
    assert all(sum(one.was_sampled) == sum(step.end - step.first for step in one.steps) for one in trained)
    assert "Episodes, before and after" in (finished / "reports" / "report.html").read_text()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_run_of_episodes_that_was_killed_goes_on_and_trains_each_group_once(tmp_path: Path) -> None:
    run = KilledRun(tmp_path, RECIPE)
    run.kill_when(lambda: run.ledger_says("SELECT COUNT(*) >= 3 FROM rollouts"))
    run.finish()
    with sqlite3.connect(run.path / "ledger.sqlite") as db:
        assert db.execute("SELECT COUNT(*) FROM groups WHERE state = 'trained'").fetchone() == (6,)
        assert db.execute("SELECT COUNT(*) FROM groups WHERE state IN ('issued', 'ready')").fetchone() == (0,)
    kept = [one for path in (run.path / "trajectories").glob("*.parquet") for one in trajectory_files.read(path)]
    assert sorted((one.group_id, one.member) for one in kept) == [
        (f"0/{group:07d}", member) for group in range(6) for member in range(4)
    ]
