"""AWR: imitate stored replies, the better ones more, each weighed by exp(advantage / beta).

Advantage-weighted regression, https://arxiv.org/abs/1910.00177, algorithm 1, with its cap of 20 on the weights. They
are constants, so that any data will do and no log-probability of whoever made it is read. Ours: the baseline is
the group's mean, not a learned value, and advantages are in units of the group's spread, which makes one `beta`
fit tasks of any scale.
Aggregation: `token_mean`.
"""

from dataclasses import dataclass

from torch import Tensor

from burnish.objectives import Loss, Streams, ops, ranges
from burnish.objectives.aggregation import Kind

AGGREGATION: Kind = "token_mean"
LINEAR_IN_ADVANTAGES = False
READS_SAMPLER = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The paper's temperature and cap."""

    beta: float = 1.0
    max_weight: float = 20.0

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing."""
        ranges.check(self, beta=ranges.ABOVE_0, max_weight=ranges.ABOVE_0)


def advantages(rewards_G: Tensor, config: Config) -> Tensor:
    """One advantage a reply: its reward against its siblings', in units of their spread."""
    return ops.center(rewards_G, divide_by_std=True)


def loss(s: Streams, config: Config) -> Loss:
    """Negative log-likelihood times weight, summed over tokens."""
    advantages_T = ops.required(s.advantages_T, "advantages_T")
    weight_T = (advantages_T / config.beta).exp().clamp(max=config.max_weight)
    policy = ops.policy_gradient(s, weight_T)
    return Loss(total=policy.total, metrics={**policy.metrics, "imitation_weight": ops.metric(weight_T, s)})
