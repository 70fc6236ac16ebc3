"""GRPO: the group is the baseline, and the ratio is clipped.

DeepSeekMath, https://arxiv.org/abs/2402.03300, eq. 3. Ours: the KL term is `kl.penalty(s, "k3", 0.04)`, added
by whoever wants it; the division by each reply's length is a choice of `weights_T`; the spread is the
unbiased one plus 1e-6. `clip_high > clip_low` gives DAPO's clip-higher; `dual_clip` is off (1912.09729 has 3).
The dialect `offline` takes the ratio to whoever sampled, from stored log-probabilities; it needs no proximal policy.
Aggregation: `seq_mean_token_mean`.
"""

import math
from dataclasses import dataclass

from torch import Tensor

from burnish.objectives import Loss, Streams, ops, ranges
from burnish.objectives.aggregation import Kind
from burnish.objectives.dialects import Dialect

AGGREGATION: Kind = "seq_mean_token_mean"
NEEDS_OPTION = {"epsilon": ("divide_by_std",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The paper states no bound; 0.2 is PPO's."""

    clip_low: float = 0.2
    clip_high: float = 0.2
    divide_by_std: bool = True
    epsilon: float = 1e-6
    dual_clip: float = math.inf
    ratio_to_sampler: bool = False

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing."""
        ranges.check(
            self, clip_low=ranges.CLIP_LOW, clip_high=ranges.ABOVE_0, epsilon=ranges.ABOVE_0, dual_clip=ranges.ABOVE_1,
        )  # fmt: skip


DIALECTS = {
    "offline": Dialect(
        config=Config(ratio_to_sampler=True),
        source="off-policy GRPO, https://arxiv.org/abs/2505.22257: the surrogate on the behaviour's log-probabilities",
    ),
    "trl": Dialect(
        config=Config(epsilon=1e-4), source="TRL 1.16, grpo_trainer.py, loss_type='grpo', scale_rewards='group'"
    ),
    "verl": Dialect(
        config=Config(dual_clip=3.0),
        source="verl of 2026-08, core_algos.compute_policy_loss_vanilla and actor.yaml",
        aggregation="token_mean",
    ),
}


def advantages(rewards_G: Tensor, config: Config) -> Tensor:
    """One advantage a reply: its reward against its siblings', in units of their spread."""
    return ops.center(rewards_G, divide_by_std=config.divide_by_std, epsilon=config.epsilon)


def loss(s: Streams, config: Config) -> Loss:
    """Clipped surrogate, summed over tokens."""
    ratio_T = ops.importance_ratio(s.new_logprobs_T, ops.behaviour_logprobs(s, of_sampler=config.ratio_to_sampler))
    return ops.clipped_surrogate(s, ratio_T, config.clip_low, config.clip_high, config.dual_clip)
