"""The loop of terminal agents (oracles, own tries, reinforcement), whole, on a random model of two layers."""

import json
from pathlib import Path

import pytest

from burnish.core import metrics
from burnish.core.recipe import read_recipe
from burnish.data import trajectory_files
from burnish.sandbox import missing
from burnish.stages.runner import run_recipe

RECIPES = Path(__file__).parents[2] / "recipes"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if lacks := missing():
        pytest.skip(f"this host cannot isolate: {lacks[0]}")
    runs = tmp_path_factory.mktemp("runs")
    run_recipe(read_recipe(RECIPES / "terminal_tiny.toml", []), runs, resume=False)
    return runs / "terminal_tiny"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_tiny_model_learns_to_do_a_chore_in_a_real_shell(run: Path) -> None:
    [domain] = json.loads((run / "reports" / "summary.json").read_text())["domains"].values()
    assert domain["before"]["mean"] == 0.0 and domain["after"]["mean"] >= 0.75


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_all_tries_are_kept_and_those_that_solved_their_task_were_learned(run: Path) -> None:
    tries = [one for path in sorted((run / "trajectories").glob("*-rejection-tries-*"))
             for one in trajectory_files.read(path)]  # fmt: skip
    assert len(tries) == 32
    result = next(row.values for row in metrics.read(run / "metrics.jsonl") if row.stage.endswith(".tries"))
    assert 0 < result["solved"] < 1
