"""A run that an invariant stopped tells what it was doing."""

from pathlib import Path

import pytest

from burnish.commands.postmortem import postmortem
from burnish.core.errors import InvariantError, RunFolderError
from burnish.core.recipe import read_recipe
from burnish.stages.runner import run_recipe

RECIPE = Path(__file__).parents[2] / "recipes" / "arithmetic_tiny.toml"
BROKEN = ["threads=1", "stages.1.num_examples=600", "stages.3.num_steps=2", "stages.3.mismatch_limit=1e-30"]


def test_a_broken_invariant_is_told_with_its_step_its_rollouts_and_the_metrics(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InvariantError, match="burnish postmortem"):
        run_recipe(read_recipe(RECIPE, BROKEN), tmp_path, resume=False)
    capsys.readouterr()
    postmortem(tmp_path / "arithmetic_tiny")
    told = capsys.readouterr().out
    assert "'arithmetic_tiny' stopped in stage 3-rl: 3 of " in told
    assert "InvariantError: sampler and learner disagree" in told
    assert "in check_mismatch" in told
    assert "3-rl step 0, weights of version " in told
    assert "verdicts {'scored': " in told
    assert "newest metrics" in told


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="no run in"):
        postmortem(tmp_path)
