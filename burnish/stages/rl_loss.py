"""The loss of the RL stage, composed once from what the recipe chooses: objective, correction, KL, entropy."""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Literal

from torch import Tensor

from burnish.core.errors import ConfigError
from burnish.learner.policy import LossFunction, Noting
from burnish.objectives import Loss, Streams, correction, entropy, kl, ops, ppo
from burnish.objectives.dialects import Choice, choose, with_options
from burnish.rollout.groups import Advantages
from burnish.stages.rl_mismatch import Mismatch

Correction = Literal[
    "none", "tis", "icepop", "sequence_product", "sequence_geometric", "sequence_mask", "geometric_mask",
    "geometric_mask_tis",
]  # fmt: skip
Multipliers = Callable[[Streams], Tensor]

_MULTIPLIERS: Mapping[Correction, Callable[..., Tensor]] = {
    "tis": correction.tis,
    "icepop": correction.icepop,
    "sequence_product": correction.sequence_product,
    "sequence_geometric": correction.sequence_geometric,
    "sequence_mask": correction.sequence_mask,
    "geometric_mask": correction.geometric_mask,
    "geometric_mask_tis": correction.geometric_mask_tis,
}


RATIO_OPTIONS = frozenset({"clip", "clip_low", "clip_high", "dual_clip", "ratio_min", "ratio_max"})
"""Options that only a ratio off 1 can feel."""


def load_objective(name: str, options: Mapping[str, Any], *, kind: str = "objectives") -> Choice:
    """An objective by name or `name@dialect`, with its options checked and on top."""
    choice = choose(kind, name)
    known = {field.name: type(field.default) for field in fields(choice.module.Config)}
    for key, value in options.items():
        if key not in known:
            raise ConfigError(f"objective {name!r} has no option {key!r}; it has: {', '.join(known) or 'none'}")
        is_number = type(value) in (int, float) and math.isfinite(value)
        if not (is_number if known[key] is float else type(value) is known[key]):
            raise ConfigError(f"objective {name!r}: {key!r} expects a {known[key].__name__}, got {value!r}")
    return with_options(choice, options)


def load_group_objective(name: str, options: Mapping[str, Any], *, stage: str = "rl", instead: str = "grpo") -> Choice:
    """An objective that turns the rewards of a group into advantages."""
    choice = load_objective(name, options)
    if not hasattr(choice.module, "advantages"):
        raise ConfigError(
            f"objective {name!r} has no advantages of groups, so stage {stage!r} cannot use it; "
            f"choose for example {instead!r}"
        )
    return choice


def load_rollout_objective(name: str, options: Mapping[str, Any]) -> Choice:
    """An objective of stage `rl`: its advantages are those of groups, or of a value model."""
    choice = load_objective(name, options)
    return choice if needs_values(choice) else load_group_objective(name, options)


def needs_values(choice: Choice) -> bool:
    """Whether advantages come from a value model beside the policy."""
    return isinstance(choice.config, ppo.Config)


def reads_sampler(choice: Choice) -> bool:
    """Whether the objective takes its ratio to the sampler itself, so that nothing is left to correct."""
    return bool(getattr(choice.config, "ratio_to_sampler", False))  # an option that few objectives have


def is_linear(choice: Choice) -> bool:
    """Whether a factor on the advantages is one on the policy's term, so that they can carry a correction."""
    return getattr(choice.module, "LINEAR_IN_ADVANTAGES", True)  # only files where it is not say so


def needs_sampler(choice: Choice) -> bool:
    """Whether the loss reads log-probabilities of whoever sampled, or of a proximal policy in their place."""
    return getattr(choice.module, "READS_SAMPLER", True)  # only files where it is not say so


def is_on_policy(choice: Choice) -> bool:
    """Whether the loss has no ratio, so that replies must be of the weights that train."""
    return getattr(choice.module, "ON_POLICY", False)  # only files where it is so say it


def compares_groups(choice: Choice) -> bool:
    """Whether advantages are differences between the replies to a prompt, so that equal scores teach nothing."""
    if needs_values(choice):
        return False
    return not hasattr(choice.module, "compares_groups") or choice.module.compares_groups(choice.config)


def advantages_of(choice: Choice) -> Advantages:
    """The objective's advantages as a function of a group's rewards; the rewards, where a value model makes them."""
    if needs_values(choice):
        return lambda rewards_G: rewards_G
    return lambda rewards_G: choice.module.advantages(rewards_G, choice.config)


def multipliers_of(name: Correction, options: Mapping[str, float]) -> Multipliers | None:
    """The correction by name, with its options checked; None is no correction."""
    function = _MULTIPLIERS.get(name)
    known = [] if function is None else [key for key in inspect.signature(function).parameters if key != "s"]
    for key in options:
        if key not in known:
            raise ConfigError(f"correction {name!r} has no option {key!r}; it has: {', '.join(known) or 'none'}")
    if function is None:
        return None
    _check_bounds(name, {key: options.get(key, inspect.signature(function).parameters[key].default) for key in known})
    return partial(function, **options)


def _check_bounds(name: Correction, bounds: Mapping[str, float]) -> None:
    """A ratio is 1 on policy: a cap below it, or a band without it, would change tokens that need no correction."""
    low, high, cap = bounds.get("low", 0.0), bounds.get("high", math.inf), bounds.get("cap", math.inf)
    if not (0 <= low < 1 < high and cap >= 1):
        told = ", ".join(f"{key} = {value:g}" for key, value in bounds.items())
        raise ConfigError(
            f"correction {name!r}: a ratio of 1 needs no correction, so low is at least 0 and below 1, high above 1, "
            f"cap at least 1; got {told}"
        )


def compose(
    choice: Choice, *, multipliers: Multipliers | None, kl_kind: kl.PenaltyKind, kl_coefficient: float,
    mismatch: Mismatch, entropy_coefficient: float = 0.0,
) -> LossFunction:  # fmt: skip
    """One function from streams to loss, which also measures how far the sampler is from the learner."""
    terms: list[LossFunction] = []
    if kl_coefficient:
        terms.append(partial(kl.penalty, kind=kl_kind, coefficient=kl_coefficient))
    if entropy_coefficient:
        terms.append(partial(entropy.bonus, coefficient=entropy_coefficient))
    objective = partial(choice.module.loss, config=choice.config)
    return _Composed(objective=objective, multipliers=multipliers, terms=tuple(terms), mismatch=mismatch)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Composed:
    """A loss that ranks can be sent."""

    objective: LossFunction
    multipliers: Multipliers | None
    terms: tuple[LossFunction, ...]
    mismatch: Mismatch

    def __call__(self, s: Streams) -> Loss:
        """The sum of all terms."""
        self.mismatch.see(s)
        corrected = s if self.multipliers is None else correction.apply(s, self.multipliers(s))
        plain = ops.add(self.objective(corrected), _mismatch(s))
        return ops.add(plain, *(term(s) for term in self.terms))

    def clear(self) -> None:
        """See `Noting`."""
        self.mismatch.clear()
        if isinstance(self.multipliers, Noting):
            self.multipliers.clear()

    def absorb(self, other: object) -> None:
        """See `Noting`."""
        assert isinstance(other, _Composed)
        self.mismatch.absorb(other.mismatch)
        if isinstance(self.multipliers, Noting):
            self.multipliers.absorb(other.multipliers)


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
