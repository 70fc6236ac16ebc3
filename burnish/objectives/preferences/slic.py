"""SLiC: hold the preferred reply ahead by a margin, and stop where it is.

SLiC-HF, https://arxiv.org/abs/2305.10425, section 2: max(0, delta - log p_chosen + log p_rejected), plus
`imitation_weight` times the cross entropy of a reply to imitate. Ours: that is the preferred one, a mean a token.
The dialect `trl` (its `hinge`, which is the normalised hinge of RSO, https://arxiv.org/abs/2309.06657) measures both
against a reference.
Aggregation: `pair_mean`.
"""

from dataclasses import dataclass

from burnish.objectives import Loss, Streams, pairs, ranges
from burnish.objectives.aggregation import Kind
from burnish.objectives.dialects import Dialect
from burnish.objectives.preferences import Labels

AGGREGATION: Kind = "pair_mean"
NEEDS_REFERENCE = False
LABELS: Labels = "pairs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The paper searched delta and the weight; these are ours."""

    delta: float = 1.0
    beta: float = 1.0
    imitation_weight: float = 0.1
    against_reference: bool = False

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing."""
        ranges.check(self, delta=ranges.ABOVE_0, beta=ranges.ABOVE_0, imitation_weight=ranges.AT_LEAST_0)


DIALECTS = {
    "trl": Dialect(
        config=Config(beta=0.1, imitation_weight=0.0, against_reference=True),
        source="TRL 1.16, dpo_trainer.py, loss_type='hinge'",
    ),
}


def loss(s: Streams, config: Config) -> Loss:
    """Hinge on the margin and cross entropy, summed over pairs."""
    compared = pairs.log_ratios(s) if config.against_reference else pairs.logprobs(s)
    rewards = pairs.scaled(compared, config.beta)
    imitated_B = pairs.per_token(pairs.logprobs(s), pairs.lengths(s)).chosen_B
    return pairs.total((config.delta - pairs.margin(rewards)).relu() - config.imitation_weight * imitated_B, rewards)
