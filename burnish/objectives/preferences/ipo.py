"""IPO: regress the margin of the log-ratios to 1 / (2 beta), which cannot run away as DPO's can.

https://arxiv.org/abs/2310.12036, eq. 17, on sums over tokens. `length_normalised` takes means a token instead: TRL's
`ipo`, which says the authors confirmed it to be what the paper's results used. The two differ by the length of a
reply in what one beta means, so name the one you compare with: `ipo@sum`, `ipo@mean`.
Aggregation: `pair_mean`.
"""

from dataclasses import dataclass

from burnish.objectives import Loss, Streams, pairs, ranges
from burnish.objectives.aggregation import Kind
from burnish.objectives.dialects import Dialect
from burnish.objectives.preferences import Labels

AGGREGATION: Kind = "pair_mean"
NEEDS_REFERENCE = True
LABELS: Labels = "pairs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """`beta` is the paper's tau; the value is DPO's."""

    beta: float = 0.1
    length_normalised: bool = False

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing."""
        ranges.check(self, beta=ranges.ABOVE_0)


DIALECTS = {
    "sum": Dialect(config=Config(), source="https://arxiv.org/abs/2310.12036, eq. 17"),
    "mean": Dialect(config=Config(length_normalised=True), source="TRL 1.16, dpo_trainer.py, loss_type='ipo'"),
}


def loss(s: Streams, config: Config) -> Loss:
    """Squared distance of the margin to its goal, summed over pairs."""
    rewards = pairs.log_ratios(s)
    if config.length_normalised:
        rewards = pairs.per_token(rewards, pairs.lengths(s))
    return pairs.total((pairs.margin(rewards) - 1 / (2 * config.beta)).square(), rewards)
