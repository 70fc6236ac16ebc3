"""Bradley-Terry: train a reward model to score the preferred reply higher.

InstructGPT, https://arxiv.org/abs/2203.02155, eq. 1; `margin_B`, where known, as in Llama 2, https://arxiv.org/abs/2307.09288,
eq. 2. The loss sees differences alone, so that scores drift; `centering` times (r_chosen + r_rejected)^2 holds them
around 0, https://arxiv.org/abs/2312.09244, eq. 2 (off by default; the paper has 0.01). One loss a pair.
"""

from torch import Tensor
from torch.nn.functional import logsigmoid

from burnish.objectives.pairs import Pair, margin


def of_rewards(rewards: Pair, *, margin_B: Tensor | float = 0.0, centering: float = 0.0) -> Tensor:
    """The loss of each pair, from the scores of its two replies."""
    held_B = centering * (rewards.chosen_B + rewards.rejected_B).square()
    return held_B - logsigmoid(margin(rewards) - margin_B)
