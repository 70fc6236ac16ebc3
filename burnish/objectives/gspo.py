"""GSPO: one ratio a sequence, the geometric mean of its tokens', clipped as a whole.

https://arxiv.org/abs/2507.18071, eq. 5 to 7, with the bounds of section 5.1. The ratio is taken over the tokens of
non-zero weight. Tokens of a sequence share one advantage; not covered: GSPO-token.
Aggregation: `seq_mean_token_mean`, which gives each sequence's ratio the weight 1.
"""

from dataclasses import dataclass

from torch import Tensor

from burnish.objectives import Loss, Streams, ops, ranges
from burnish.objectives.aggregation import Kind
from burnish.objectives.dialects import Dialect

AGGREGATION: Kind = "seq_mean_token_mean"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Published defaults; bounds on a mean are far tighter than on a token."""

    clip_low: float = 3e-4
    clip_high: float = 4e-4
    epsilon: float = 1e-6

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing."""
        ranges.check(self, clip_low=ranges.CLIP_LOW, clip_high=ranges.ABOVE_0, epsilon=ranges.ABOVE_0)


DIALECTS = {
    "trl": Dialect(
        config=Config(epsilon=1e-4),
        source="TRL 1.16, paper_index.md: importance_sampling_level='sequence', loss_type='grpo'",
    ),
}


def advantages(rewards_G: Tensor, config: Config) -> Tensor:
    """One advantage a reply: its reward against its siblings', in units of their spread."""
    return ops.center(rewards_G, divide_by_std=True, epsilon=config.epsilon)


def sequence_ratio(s: Streams) -> Tensor:
    """The ratio of the sequence to the power 1 / length, at each of its tokens."""
    old_logprobs_T = ops.required(s.old_logprobs_T, "old_logprobs_T")
    new_mean_T = ops.sequence_mean(s.new_logprobs_T, s)
    return ops.importance_ratio(new_mean_T, ops.sequence_mean(old_logprobs_T, s))


def loss(s: Streams, config: Config) -> Loss:
    """Clipped surrogate of the sequence's ratio, summed over tokens."""
    return ops.clipped_surrogate(s, sequence_ratio(s), config.clip_low, config.clip_high)
