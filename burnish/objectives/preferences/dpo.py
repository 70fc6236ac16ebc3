"""DPO: classify which reply was preferred, by the policy's own log-ratio to a reference.

https://arxiv.org/abs/2305.18290, eq. 7. A share `label_smoothing` of the labels may be wrong: cDPO,
https://ericmitchell.ai/cdpo.pdf, takes the expected loss; `debias` divides out what wrong labels do to it, robust
DPO, https://arxiv.org/abs/2403.00409.
Aggregation: `pair_mean`.
"""

from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import logsigmoid

from burnish.objectives import Loss, Streams, pairs
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
        if share >= 0.5:
            raise ValueError(f"with debias, label_smoothing is below 0.5 (labels that say something); got {share}")
        return (-(1 - share) * logsigmoid(margin_B) + share * logsigmoid(-margin_B)) / (1 - 2 * share)
    return -(1 - share) * logsigmoid(margin_B) - share * logsigmoid(-margin_B)


def loss(s: Streams, config: Config) -> Loss:
    """Negative log-likelihood of the labels, summed over pairs."""
    rewards = pairs.scaled(pairs.log_ratios(s), config.beta)
    return pairs.total(of_margins(pairs.margin(rewards), config), rewards)
