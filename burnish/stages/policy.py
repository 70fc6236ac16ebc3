"""The policy that a recipe's stages train: in the run's own process, or in several ranks that a runtime starts.

Each rank loads the model by its name, as the run does, and marks what trains by the same seed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
from transformers import PreTrainedModel

from burnish.core.recipe import LearnerConfig, ModelConfig, Recipe
from burnish.core.seeds import derive
from burnish.learner.policy import Policy
from burnish.learner.ranked import RankConfig, RankedLearner
from burnish.learner.ranked_policy import AnyPolicy, RankedPolicy
from burnish.models.forward import checkpoint_activations
from burnish.models.load import Loaded, load
from burnish.models.lora import add_lora, trainable
from burnish.models.parameters import freeze
from burnish.runtime.opening import Opened

LEARNER = LearnerConfig()


def make_policy(loaded: Loaded, model: ModelConfig, seed: int, learner: LearnerConfig = LEARNER) -> Policy:
    """A policy in this process."""
    _choose_trained(loaded.model, model, seed, learner)
    return Policy(loaded.model, trainable(loaded.model), max_pack_tokens=learner.max_pack_tokens)


@contextmanager
def opened_policy(recipe: Recipe, loaded: Loaded, where: Opened) -> Iterator[AnyPolicy]:
    """The recipe's policy, in as many ranks as it says, while the block lasts."""
    own = make_policy(loaded, recipe.model, recipe.seed, recipe.learner)
    if recipe.runtime.learner_ranks == 1:
        yield own
        return
    config = RankConfig(
        build=partial(_built, recipe.model, loaded.dtype, recipe.seed, recipe.learner), compute_dtype=loaded.dtype,
        max_pack_tokens=recipe.learner.max_pack_tokens, num_threads=recipe.runtime.learner_threads,
    )  # fmt: skip
    learner = RankedLearner(where.runtime, config, recipe.runtime.learner_ranks)
    try:
        yield RankedPolicy(own, learner, where.carrier)
    finally:
        learner.stop()


def _built(model: ModelConfig, dtype: torch.dtype, seed: int, learner: LearnerConfig) -> PreTrainedModel:
    """What a rank trains: the run's model, rounded as there, with float32 masters."""
    built = load(model.name, dtype="bfloat16" if dtype == torch.bfloat16 else "float32").model
    _choose_trained(built, model, seed, learner)
    for parameter in built.parameters():
        parameter.data = parameter.data.float()
    return built


def _choose_trained(loaded: PreTrainedModel, model: ModelConfig, seed: int, learner: LearnerConfig) -> None:
    """Mark what trains: adapters, or everything, less what is frozen."""
    if model.lora is None:
        loaded.requires_grad_(True)
    else:
        add_lora(
            loaded,
            rank=model.lora.rank,
            alpha=model.lora.alpha,
            targets=model.lora.targets,
            stabilised=model.lora.stabilised,
            seed=derive(seed, "lora"),
        )
    freeze(loaded, model.freeze)
    if learner.checkpoint_activations:
        checkpoint_activations(loaded)
