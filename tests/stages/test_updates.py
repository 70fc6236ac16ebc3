"""What a stage says of its updates reaches the learner."""

import re
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest
from safetensors.torch import load_file

from burnish.core.errors import ConfigError
from burnish.core.recipe import Recipe, read_recipe
from burnish.stages.runner import run_recipe
from burnish.stages.updates import Updates

RECIPE = """
name = "short"
threads = 1
model = { name = "tiny", freeze = ["embed"] }
learner = { checkpoint_activations = true, max_pack_tokens = 100 }
tasks = [{ domain = "arithmetic", num_eval = 4 }]
stages = [{ use = "sft", num_examples = 12, batch_size = 4, num_warmup = 0, optimiser = "muon", ema_decay = EMA }]
"""


def furthest_move(folder: Path, ema_decay: float) -> float:
    folder.mkdir()
    (folder / "short.toml").write_text(RECIPE.replace("EMA", str(ema_decay)))
    run_recipe(read_recipe(folder / "short.toml"), folder, resume=False)
    before, after = (
        load_file(folder / "short" / "checkpoints" / name / "masters.safetensors") for name in ("base", "0-sft")
    )
    assert not any("embed" in name for name in after)
    return max(float((after[name] - before[name]).abs().max()) for name in after)


def test_a_stage_ends_with_the_running_average_if_it_keeps_one(tmp_path: Path) -> None:
    plain, averaged = furthest_move(tmp_path / "plain", 0), furthest_move(tmp_path / "averaged", 0.99)
    assert 0 < averaged < 0.05 * plain


def test_the_options_that_the_document_shows_are_a_recipes() -> None:
    page = (Path(__file__).parents[2] / "docs" / "learner.md").read_text()
    shown = tomllib.loads(re.findall(r"```toml\n(.*?)```", page, re.DOTALL)[0])
    rest = {"name": "shown", "tasks": [{"domain": "arithmetic"}], "stages": [{"use": "sft"}]}
    recipe = Recipe.model_validate({**rest, **shown})
    assert recipe.model.lora is not None
    assert recipe.model.lora.stabilised
    assert all(name in page for name in Updates.model_fields)


def test_a_stages_rate_is_the_schedule_with_its_own_numbers() -> None:
    updates = Updates(learning_rate=2.0, num_warmup=2, decay="warmup_stable_decay", decay_share=0.4)
    assert [updates.rate(step, 10) for step in (0, 6, 8)] == pytest.approx([1.0, 2.0, 2 * 0.55])


def test_the_options_are_those_that_the_learner_starts_with() -> None:
    config = Updates(optimiser="muon", weight_decay=0.1, max_grad_norm=0.5, ema_decay=0.9).optimiser_config()
    assert (config.kind, config.weight_decay, config.max_grad_norm, config.ema_decay) == ("muon", 0.1, 0.5, 0.9)


@pytest.mark.skipif(find_spec("torchao") is not None, reason="the package torchao is installed")
def test_an_optimiser_whose_package_is_missing_is_refused_before_anything_runs() -> None:
    with pytest.raises(ValueError, match="optim8bit"):
        Updates(optimiser="adamw_8bit")


@pytest.mark.parametrize(
    ("assignment", "message"),
    [("model.freeze=['embd']", "near to it"), ("model.freeze=['.']", "nothing to train")],
)
def test_what_cannot_be_frozen_is_said_before_anything_runs(assignment: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "short.toml").write_text(RECIPE.replace("EMA", "0"))
    with pytest.raises(ConfigError, match=message):
        run_recipe(read_recipe(tmp_path / "short.toml", [assignment]), tmp_path, resume=False)
