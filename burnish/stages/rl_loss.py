"""The loss of the RL stage, composed once from what the recipe chooses: objective, correction, KL."""

import math
from collections.abc import Callable
from dataclasses import fields
from typing import Any, Literal

from torch import Tensor

from burnish.core import plugins
from burnish.core.errors import ConfigError
from burnish.learner.policy import LossFunction
from burnish.objectives import Loss, Streams, correction, kl, ops
from burnish.rollout.groups import Advantages

Correction = Literal["none", "tis", "icepop"]

_MULTIPLIERS: dict[Correction, Callable[[Streams], Tensor]] = {"tis": correction.tis, "icepop": correction.icepop}


def load_objective(name: str, options: dict[str, Any]) -> tuple[Any, Any]:
    """An objective's module and its checked `Config`."""
    module = plugins.load("objectives", name)
    known = {field.name: type(field.default) for field in fields(module.Config)}
    for key, value in options.items():
        if key not in known:
            raise ConfigError(f"objective {name!r} has no option {key!r}; it has: {', '.join(known) or 'none'}")
        is_number = type(value) in (int, float) and math.isfinite(value)
        if not (is_number if known[key] is float else type(value) is known[key]):
            raise ConfigError(f"objective {name!r}: {key!r} expects a {known[key].__name__}, got {value!r}")
    if not hasattr(module, "advantages"):
        raise ConfigError(
            f"objective {name!r} has no advantages of groups, so stage 'rl' cannot use it; choose for example 'grpo'"
        )
    return module, module.Config(**options)


def advantages_of(module: Any, config: Any) -> Advantages:
    """The objective's advantages as a function of a group's rewards."""
    return lambda rewards_G: module.advantages(rewards_G, config)


def compose(
    module: Any, config: Any, *, correct: Correction, kl_kind: kl.PenaltyKind, kl_coefficient: float
) -> LossFunction:
    """One function from streams to loss, which also measures how far the sampler is from the learner."""
    multipliers = _MULTIPLIERS.get(correct)

    def corrected(s: Streams) -> Streams:
        return s if multipliers is None else correction.apply(s, multipliers(s))

    def plain(s: Streams) -> Loss:
        return ops.add(module.loss(corrected(s), config), _mismatch(s))

    def with_kl(s: Streams) -> Loss:
        return ops.add(plain(s), kl.penalty(s, kl_kind, kl_coefficient))

    return with_kl if kl_coefficient else plain


def _mismatch(s: Streams) -> Loss:
    old_logprobs_T = ops.required(s.old_logprobs_T, "old_logprobs_T")
    rollout_logprobs_T = ops.required(s.rollout_logprobs_T, "rollout_logprobs_T")
    return Loss(
        total=s.new_logprobs_T.new_zeros(()),
        metrics={
            "mismatch": ops.metric((old_logprobs_T - rollout_logprobs_T).abs(), s),
            "mismatch_k3": ops.metric(kl.k3(rollout_logprobs_T, old_logprobs_T), s),
        },
    )
