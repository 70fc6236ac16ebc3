"""Objectives: advantages and losses as pure functions of tensors. One file an algorithm.

A file defines a frozen `Config` dataclass with the paper's defaults, `loss(streams, config) -> Loss`, the paper's way
of weighing tokens as `AGGREGATION` (a recipe may choose another), and, if it turns rewards into advantages,
`advantages(rewards_G, config) -> Tensor`; what only a whole step of groups can do to them is `over_step(step, config)
-> Tensor`. A file whose loss is not linear in the advantages, so that no correction can multiply them, says
`LINEAR_IN_ADVANTAGES = False`; one whose loss has no ratio, so that replies must be of the weights that train, says
`ON_POLICY = True`; one that may do without comparing the replies to a prompt says when it does by
`compares_groups(config) -> bool`. `KL_TO_THE_END = True` says that KL in the
reward is in each token's. `DIVIDES_BY_MEAN = True` says that rewards
must not be lowered by penalties. `NEEDS_OPTION` names options that nothing reads unless another one is on. A loss is
a *sum* over tokens; the learner divides once by the global weight. `DIALECTS` names the forms that other systems give
to the same algorithm (`dialects`). Objectives of stored preferences are the files of `preferences/`. Files without
`loss` are parts.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """What an objective sees: one entry for each token that trains, sequences laid end to end.

    `sequence_T` numbers the sequence that a token belongs to (0, 1, ... within this call; a sequence
    is never split over two calls). `weights_T` carries the choice of aggregation. `old_logprobs_T`
    are the proximal policy's, `rollout_logprobs_T` the sampler's own. In objectives of preferences the
    sign of `advantages_T` tells the preferred replies from the others. `entropies_T` are of the policy's whole
    distributions, with their gradient; `top_logprobs_T_K` are the policy's of the reference's k likeliest tokens.
    """

    new_logprobs_T: Tensor
    weights_T: Tensor
    sequence_T: Tensor
    advantages_T: Tensor | None = None
    old_logprobs_T: Tensor | None = None
    rollout_logprobs_T: Tensor | None = None
    ref_logprobs_T: Tensor | None = None
    entropies_T: Tensor | None = None
    top_logprobs_T_K: Tensor | None = None
    ref_top_logprobs_T_K: Tensor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """`total` is differentiable; each metric is a detached weighted sum, which the learner
    divides by the sum of the weights: a metric is a mean over tokens, whatever the aggregation.
    """

    total: Tensor
    metrics: Mapping[str, Tensor]
