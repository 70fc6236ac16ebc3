"""What can be known without running is said by the check."""

import pytest

from burnish.core.config import validate
from burnish.core.errors import ConfigError
from burnish.core.recipe import Recipe
from burnish.stages.check import check_recipe, open_stages

SFT, RL, EVALUATE, GATE = (
    {"use": "sft", "num_examples": 8},
    {"use": "rl", "num_steps": 1},
    {"use": "evaluate"},
    {"use": "gate"},
)


def recipe(**changes: object) -> Recipe:
    tasks = [{"domain": "arithmetic", "num_eval": 4}]
    data = {"name": "r", "model": {"name": "tiny"}, "tasks": tasks, "stages": [EVALUATE, SFT, EVALUATE, GATE]}
    return validate(Recipe, data | changes, "r.toml")


def test_a_recipe_that_is_right_is_returned_with_its_defaults() -> None:
    assert check_recipe(recipe())["stages"][1]["batch_size"] == 16


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([GATE], "needs an 'evaluate' stage before"),
        ([EVALUATE, SFT, GATE], "needs an 'evaluate' stage before"),
        ([EVALUATE, SFT, GATE, EVALUATE], "needs an 'evaluate' stage before"),
        ([EVALUATE, SFT, EVALUATE, RL, GATE], "newest weights were not evaluated"),
    ],
)
def test_a_gate_has_its_evaluations(stages: list[dict[str, object]], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        open_stages(recipe(stages=stages))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {"name": ""}}, "has no config.json"),
        ({"model": {"name": "starte"}}, "no model 'starte'"),
        ({"model": {"name": "/nowhere/m.gguf"}}, "no model file"),
        ({"tasks": [{"domain": "arithmetic", "options": {"largest": 1}}]}, "are held-out ones; widen the domain"),
        ({"stages": [RL | {"objective_options": {"clip_low": float("nan")}}]}, "finite number"),
        ({"stages": [RL | {"objective_options": {"clip_low": True}}]}, "'clip_low' expects a float, got True"),
    ],
)
def test_a_fault_shows_before_the_run(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_recipe(recipe(**changes))


def test_a_recipe_that_only_evaluates_may_hold_every_task_out() -> None:
    tasks = [{"domain": "arithmetic", "options": {"largest": 1}}]
    assert check_recipe(recipe(tasks=tasks, stages=[EVALUATE]))


def test_options_of_domains_that_no_stage_reads_are_refused() -> None:
    tasks = [{"domain": "arithmetic"}, {"domain": "arithmetic", "group": "b", "rl": {"clip": 0.5}}]
    with pytest.raises(ConfigError, match=r"tasks\.1\.rl: nothing reads it, because the recipe has no stage 'rl'"):
        open_stages(recipe(tasks=tasks))
    assert open_stages(recipe(tasks=tasks, stages=[RL]))


def test_a_domains_own_options_are_checked_without_running() -> None:
    tasks = [{"domain": "arithmetic", "rl": {"objective": "grop"}}]
    with pytest.raises(ConfigError, match=r"tasks\.0\.rl: .*no plugin 'grop'"):
        open_stages(recipe(tasks=tasks, stages=[RL]))


def test_what_the_opened_domains_cannot_train_is_refused_before_the_run() -> None:
    with pytest.raises(ConfigError, match="no domain here has tasks of several turns"):
        check_recipe(recipe(stages=[RL | {"credit": "turn"}]))
