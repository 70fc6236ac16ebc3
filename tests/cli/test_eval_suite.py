"""`burnish eval` without a suite takes the tasks of the run that the model comes from."""

import pytest

from burnish.commands.suites import USUAL, suite_for
from burnish.core.config import validate
from burnish.core.recipe import Recipe

RECIPE = {"name": "r", "tasks": [{"domain": "rg:gcd", "num_eval": 7}], "stages": [{"use": "sft"}]}


@pytest.mark.parametrize("model", ["final", "checkpoints/step-3", "."])
def test_a_model_in_a_run_folder_is_evaluated_on_the_runs_tasks(tmp_path, model):
    recipe = validate(Recipe, RECIPE, "r.toml")
    (tmp_path / "recipe.resolved.json").write_text(recipe.model_dump_json())
    assert suite_for(tmp_path / model).tasks == recipe.tasks


def test_any_other_model_is_evaluated_on_the_usual_tasks(tmp_path):
    assert suite_for(tmp_path / "model") == USUAL
