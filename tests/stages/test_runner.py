"""What a resumed run needs of the stages that it has finished: nothing."""

from pathlib import Path

import pytest

from burnish.core.errors import ConfigError
from burnish.core.ledger import Ledger
from burnish.core.recipe import Recipe
from burnish.stages.check import open_stages, prove_tasks
from burnish.stages.runner import num_done


def test_data_of_finished_stages_need_not_be_there_when_a_run_goes_on(tmp_path: Path) -> None:
    gone = {"use": "preference", "data": str(tmp_path / "gone.jsonl")}
    recipe = Recipe.model_validate(
        {
            "name": "r", "model": {"name": "tiny"}, "tasks": [{"domain": "arithmetic", "num_eval": 2}],
            "stages": [gone, {"use": "evaluate"}],
        }
    )  # fmt: skip
    stages = open_stages(recipe)
    assert num_done(tmp_path) == 0
    with pytest.raises(ConfigError, match=r"gone\.jsonl"):
        prove_tasks(recipe, stages)
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.finish_stage(0, "0-preference", {})
    ledger.close()
    assert num_done(tmp_path) == 1
    prove_tasks(recipe, stages[num_done(tmp_path) :])
