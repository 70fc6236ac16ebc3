"""Each algorithm raises its reward, end to end, on a random model of two layers."""

from pathlib import Path
from statistics import fmean

import pytest

from burnish.core import metrics, plugins
from burnish.core.recipe import read_recipe
from burnish.stages.runner import run_recipe

RECIPE = Path(__file__).parents[2] / "recipes" / "arithmetic_tiny.toml"
OPTIONS = {"dr_grpo": ["stages.3.max_new_tokens=8"]}
"""What an algorithm cannot do without."""


def learning_curve(objective: str, runs: Path) -> list[float]:
    assignments = [f"stages.3.objective={objective}", *OPTIONS.get(objective, [])]
    run_recipe(read_recipe(RECIPE, assignments), runs, resume=False)
    rows = metrics.read(runs / "arithmetic_tiny" / "metrics.jsonl")
    return [row.values["reward/arithmetic"] for row in rows if row.stage == "3-rl"]


def assert_it_rises(curve: list[float]) -> None:
    assert fmean(curve[-10:]) > fmean(curve[:5]) + 0.1, curve


def test_the_default_algorithm_raises_its_reward(tmp_path: Path) -> None:
    assert_it_rises(learning_curve("dapo", tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize(
    "objective", [*sorted({*plugins.names("objectives")} - {"dapo", "sft", "opd"}), "cispo@scalerl"]
)
def test_every_algorithm_raises_its_reward(objective: str, tmp_path: Path) -> None:
    assert_it_rises(learning_curve(objective, tmp_path))
