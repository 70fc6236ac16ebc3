"""What a run trained on, as far as its folder tells: the prompts that no evaluation of its models may ask.

Covered: the prompts of stage `rl`, as the ledger has them, and the demonstrations of stage `sft`, made again from their
seeds. Not covered: files of pairs, rated replies and stored trajectories (`burnish contamination` reads files).
"""

from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from burnish.core.ledger import Ledger
from burnish.core.recipe import Recipe
from burnish.core.run_folder import kept_recipe
from burnish.core.seeds import derive
from burnish.core.types import Task
from burnish.rollout.mixture import Mixture, Source, held_out
from burnish.stages.session import open_sources

NUM_LOOKED_AT = 64


def trained_prompts(run: Path) -> frozenset[str]:
    """The hashes of the prompts that a run's weights have seen."""
    ledger = Ledger(run / "ledger.sqlite")
    try:
        prompts = set(ledger.trained_prompts())
    finally:
        ledger.close()
    return shown_prompts(kept_recipe(run)) | prompts


def shown_prompts(recipe: Recipe) -> frozenset[str]:
    """The hashes of the prompts that the `sft` stages of a recipe show; no run is needed."""
    return frozenset(task.prompt_hash for task in _demonstrations(recipe))


def _demonstrations(recipe: Recipe) -> Iterator[Task]:
    """The tasks that the `sft` stages of a recipe show."""
    stages = [(place, stage) for place, stage in enumerate(recipe.stages) if stage["use"] == "sft"]
    if not stages:
        return
    sources = open_sources(recipe.tasks, recipe.sandbox, Console(quiet=True))
    for place, stage in stages:
        yield from draws(recipe, sources, place, int(stage["num_examples"]))


def draws(recipe: Recipe, sources: list[Source], place: int, num: int) -> Iterator[Task]:
    """The first tasks that the stage at that place draws, from sources that know correct replies."""
    seed = derive(recipe.seed, "train", place)
    teachers = [source for source in sources if _knows_replies(source, seed)]
    exclude = frozenset(draw.task.prompt_hash for draw in held_out(sources, derive(recipe.seed, "eval")))
    mixture = Mixture(teachers, seed=seed, exclude=exclude)
    yield from (mixture.draw(number).task for number in range(num if teachers else 0))


def _knows_replies(source: Source, seed: int) -> bool:
    """As stage `sft` finds it: whether one of the first tasks has a correct reply."""
    size = source.domain.size("train")
    num = NUM_LOOKED_AT if size is None else min(size, NUM_LOOKED_AT)
    return any(source.domain.task("train", seed, index).gold is not None for index in range(num))
