"""docs/staged_training.md: its recipe is read, and each option that it may have is named on the page."""

import re
import tomllib
from pathlib import Path
from typing import Any

from burnish.core.config import validate
from burnish.core.curriculum import Enters, Silent, Solved
from burnish.core.recipe import Recipe
from burnish.rollout.corrections import CorrectionsConfig
from burnish.rollout.course import MixtureConfig
from burnish.rollout.phases import graph_lines
from burnish.stages.curriculum import plan_of
from burnish.stages.guard_config import GuardConfig
from burnish.stages.rl_config import Config

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "staged_training.md").read_text()


def made() -> tuple[Recipe, Config]:
    (block,) = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    recipe = validate(Recipe, {"name": "page", **tomllib.loads(block)}, "the page")
    (stage,) = recipe.stages
    options: dict[str, Any] = {name: value for name, value in stage.items() if name != "use"}
    return recipe, validate(Config, options, "the page")


def test_the_recipe_of_the_page_has_the_graph_that_it_says() -> None:
    recipe, config = made()
    assert graph_lines(plan_of(config, recipe.tasks).rules) == [
        "sums: trains from the start; solved at 0.95 over 32 groups: weight times 0.1",
        "rg:products: enters when sums reach 0.6 over 16 groups; silent at 0.05 of 32 groups with signal: "
        "weight times 0.2",
    ]


def test_each_option_is_named() -> None:
    models = (Enters, Solved, Silent, MixtureConfig, CorrectionsConfig, GuardConfig)
    names = {name for model in models for name in model.model_fields}
    blocks = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    told = [*blocks, *re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL))]
    named = set(re.findall(r"\w+", " ".join(told)))
    assert sorted(names - named) == []


def test_the_recipe_of_a_hundred_domains_is_what_the_page_says() -> None:
    tasks = tomllib.loads((ROOT / "recipes" / "hundred_domains.toml").read_text())["tasks"]
    of_package = [task for task in tasks if task["domain"].startswith("rg:")]
    assert (len(of_package), len(tasks) - len(of_package)) == (105, 3)
    names = [task.get("group", task["domain"]) for task in tasks]
    assert len(set(names)) == len(names)
