"""Validate all of a recipe that can be validated without running it."""

from typing import Any

from burnish.core import plugins
from burnish.core.config import Strict, validate
from burnish.core.recipe import Recipe
from burnish.stages.session import open_sources
from burnish.stages.terminal import terminal


def stage_plugin(stage: dict[str, Any]) -> tuple[Any, Strict]:
    """The module of a stage of the recipe, and its options, checked."""
    module = plugins.load("stages", stage["use"])
    options = {key: value for key, value in stage.items() if key != "use"}
    return module, validate(module.Config, options, f"stage {stage['use']!r}")


def check_recipe(recipe: Recipe) -> dict[str, Any]:
    """Return the resolved recipe, all defaults filled in; `ConfigError` at the first fault."""
    plugins.load("engine", recipe.engine.use)
    stages = [{"use": stage["use"], **stage_plugin(stage)[1].model_dump(mode="json")} for stage in recipe.stages]
    sources = open_sources(recipe.tasks, recipe.sandbox, terminal(stderr=True))
    for source in sources:
        source.domain.task("train", recipe.seed, 0)
        source.domain.task("eval", recipe.seed, 0)
    return {**recipe.model_dump(mode="json"), "stages": stages}
