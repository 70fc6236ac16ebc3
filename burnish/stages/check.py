"""Validate all of a recipe that can be validated without running it."""

from functools import partial
from typing import Any, NamedTuple

from rich.console import Console

from burnish.core import plugins
from burnish.core.config import Strict, validate
from burnish.core.errors import ConfigError
from burnish.core.recipe import Recipe
from burnish.core.seeds import derive
from burnish.engine.opening import check_engine
from burnish.models.load import check_name
from burnish.rollout.mixture import Mixture, Source, held_out
from burnish.runtime.opening import check_runtime
from burnish.stages.session import live_sources, open_sources
from burnish.stages.task_check import refuse_unproven
from burnish.stages.terminal import terminal
from burnish.stages.trained_on import shown_prompts


class StagePlugin(NamedTuple):
    """The module of a stage of the recipe, and its options, checked."""

    module: Any
    config: Strict


def open_stages(recipe: Recipe) -> list[StagePlugin]:
    """The recipe's stages, each with its options and its place checked; the engine must suit them."""
    opened: list[StagePlugin] = []
    for stage in recipe.stages:
        module = plugins.load("stages", stage["use"])
        options = {key: value for key, value in stage.items() if key != "use"}
        config = validate(module.Config, options, f"stage {stage['use']!r}")
        if hasattr(module, "check_place"):
            module.check_place([plugin.module for plugin in opened])
        if hasattr(module, "check_entries"):
            module.check_entries(config, recipe.tasks)
        opened.append(StagePlugin(module, config))
    _check_read(recipe)
    check_engine(recipe.engine, trains=trains(opened))
    check_runtime(recipe.runtime, recipe.engine)
    if recipe.runtime.learner_ranks > 1:
        _check_ranks(recipe, opened)
    return opened


def _check_ranks(recipe: Recipe, stages: list[StagePlugin]) -> None:
    """`ConfigError` unless all stages that train can do it in several ranks, and there is one."""
    told = f"runtime.learner_ranks = {recipe.runtime.learner_ranks}"
    if not trains(stages):
        raise ConfigError(f"{told}: no stage of the recipe trains; leave it out")
    for stage, plugin in zip(recipe.stages, stages, strict=True):
        if hasattr(plugin.module, "check_ranks"):
            plugin.module.check_ranks(plugin.config)
        elif hasattr(plugin.module, "TRAINS"):
            raise ConfigError(
                f"{told}: stage {stage['use']!r} trains in one process; several ranks train stages sft, offline and "
                "rl. Leave learner_ranks out, or the stage"
            )


def _check_read(recipe: Recipe) -> None:
    """`ConfigError` for options of tasks that no stage of the recipe reads."""
    unread = [f"tasks.{number}.rl" for number, entry in enumerate(recipe.tasks) if entry.rl]
    if unread and not any(stage["use"] == "rl" for stage in recipe.stages):
        raise ConfigError(
            f"{', '.join(unread)}: nothing reads it, because the recipe has no stage 'rl'; add one, or leave it out"
        )


def trains(stages: list[StagePlugin]) -> bool:
    """Whether a stage of the recipe changes weights."""
    return any(hasattr(plugin.module, "TRAINS") for plugin in stages)


def prove_tasks(recipe: Recipe, stages: list[StagePlugin]) -> None:
    """Before a run: `ConfigError` if a stage's data cannot be read, or a task set that trains fails its check."""
    if not trains(stages) and not any(hasattr(plugin.module, "check_data") for plugin in stages):
        return
    sources = open_sources(recipe.tasks, recipe.sandbox, Console(quiet=True))  # the run says what it leaves out
    _check_data(recipe, stages, sources)
    if trains(stages):
        refuse_unproven(recipe, sources, terminal(stderr=True))


def check_recipe(recipe: Recipe) -> dict[str, Any]:
    """Return the resolved recipe, all defaults filled in; `ConfigError` at the first fault."""
    check_name(recipe.model.name)
    opened = open_stages(recipe)
    sources = open_sources(recipe.tasks, recipe.sandbox, terminal(stderr=True))
    _check_tasks(recipe, sources, trains=trains(opened))
    live_sources(recipe, sources)
    _check_data(recipe, opened, sources)
    if trains(opened):
        refuse_unproven(recipe, sources, terminal(stderr=True))
    _describe(recipe, opened)
    stages = [
        {"use": stage["use"], **plugin.config.model_dump(mode="json")}
        for stage, plugin in zip(recipe.stages, opened, strict=True)
    ]
    return {**recipe.model_dump(mode="json"), "stages": stages}


def _describe(recipe: Recipe, stages: list[StagePlugin]) -> None:
    """Say what stages have to say of themselves, beside the resolved recipe."""
    for plugin in stages:
        for line in plugin.module.described(plugin.config, recipe.tasks) if hasattr(plugin.module, "described") else ():
            terminal(stderr=True).print(line)


def _check_data(recipe: Recipe, stages: list[StagePlugin], sources: list[Source]) -> None:
    """What stages read from files is there and means something; they can train on what the domains are."""
    for place, plugin in enumerate(stages):
        if hasattr(plugin.module, "check_domains"):
            plugin.module.check_domains(plugin.config, [source.domain for source in sources], recipe.episodes)
        if hasattr(plugin.module, "check_data"):
            plugin.module.check_data(plugin.config, _held_out_prompts(recipe, sources))
        if hasattr(plugin.module, "check_suites"):
            before = recipe.model_copy(update={"stages": recipe.stages[:place]})
            plugin.module.check_suites(plugin.config, recipe.tasks, partial(shown_prompts, before))


def _held_out_prompts(recipe: Recipe, sources: list[Source]) -> frozenset[str]:
    return frozenset(draw.task.prompt_hash for draw in held_out(sources, derive(recipe.seed, "eval")))


def _check_tasks(recipe: Recipe, sources: list[Source], *, trains: bool) -> None:
    """Each source has held-out tasks and, if there is training, a task to train on that is not one of them."""
    exclude = _held_out_prompts(recipe, sources)
    for source in sources if trains else []:
        Mixture([source], seed=recipe.seed, exclude=exclude).draw(0)
