"""`burnish plan fit`: a cluster as a run shows it, as JSON that `burnish plan simulate` reads."""

import json
from pathlib import Path

import typer

from burnish.core.config import validate
from burnish.core.errors import ConfigError
from burnish.core.recipe import Recipe
from burnish.core.run_folder import kept_recipe
from burnish.plan.fit import fit
from burnish.stages.rl_config import Config


def fit_command(run: Path, stage: str | None) -> None:
    """Print it."""
    recipe = kept_recipe(run)
    position = position_of(recipe, stage)
    options = {key: value for key, value in recipe.stages[position].items() if key != "use"}
    config = validate(Config, options, f"stage {position} of {str(run)!r}")
    typer.echo(json.dumps(fit(run, position, config.scheduler_config()).model_dump(mode="json"), indent=2))


def position_of(recipe: Recipe, stage: str | None) -> int:
    """Where the stage `rl` of that name, or the only one, stands in the recipe."""
    found = {f"{i}-rl": i for i, options in enumerate(recipe.stages) if options["use"] == "rl"}
    names = ", ".join(found) or "none"
    if stage is None and len(found) != 1:
        raise ConfigError(f"run {recipe.name!r} has {len(found)} stages 'rl' ({names}); choose one by --stage NAME")
    if stage is not None and stage not in found:
        raise ConfigError(f"run {recipe.name!r} has no stage {stage!r}; its stages 'rl' are: {names}")
    return found[stage] if stage is not None else next(iter(found.values()))
