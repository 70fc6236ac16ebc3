"""DPO: classify which reply was preferred, by the policy's own log-ratio to a reference.

https://arxiv.org/abs/2305.18290, eq. 7. A share `label_smoothing` of the labels may be wrong: cDPO,
https://ericmitchell.ai/cdpo.pdf, takes the expected loss; `debias` divides out what wrong labels do to it, robust
DPO, https://arxiv.org/abs/2403.00409.
Aggregation: `pair_mean`.
"""

from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import logsigmoid

from burnish.objectives import Loss, Streams, pairs, ranges
from burnish.objectives.aggregation import Kind
from burnish.objectives.dialects import Dialect
from burnish.objectives.preferences import Labels

AGGREGATION: Kind = "pair_mean"
NEEDS_REFERENCE = True
LABELS: Labels = "pairs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The paper's temperature; labels are taken as right."""

    beta: float = 0.1
    label_smoothing: float = 0.0
    debias: bool = False

    def __post_init__(self) -> None:
        """Refuse shares that say nothing."""
        ranges.check(self, beta=ranges.ABOVE_0)
        if not 0 <= self.label_smoothing < (0.5 if self.debias else 1):
            limit = "below 0.5 (labels that say something) with debias" if self.debias else "at least 0 and below 1"
            raise ValueError(f"label_smoothing is {limit}; got {self.label_smoothing}")
        if self.debias and not self.label_smoothing:
            raise ValueError("debias divides out wrong labels, and label_smoothing, their share, is 0; set it")


DIALECTS = {
    "cdpo": Dialect(config=Config(label_smoothing=0.1), source="https://ericmitchell.ai/cdpo.pdf; the share is ours"),
    "robust": Dialect(
        config=Config(label_smoothing=0.1, debias=True), source="https://arxiv.org/abs/2403.00409; TRL's 'robust'"
    ),
}


def of_margins(margin_B: Tensor, config: Config) -> Tensor:
    """The loss of pairs whose preferred reply is ahead by `margin_B`."""
    share = config.label_smoothing
    if config.debias:
        return (-(1 - share) * logsigmoid(margin_B) + share * logsigmoid(-margin_B)) / (1 - 2 * share)
    return -(1 - share) * logsigmoid(margin_B) - share * logsigmoid(-margin_B)


def loss(s: Streams, config: Config) -> Loss:
    """Negative log-likelihood of the labels, summed over pairs."""
    rewards = pairs.scaled(pairs.log_ratios(s), config.beta)
    return pairs.total(of_margins(pairs.margin(rewards), config), rewards)
