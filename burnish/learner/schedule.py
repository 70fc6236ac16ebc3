"""Learning-rate schedules: pure functions of the step.

constant             stays at the peak
linear, cosine       fall to `final_share * peak` behind the last step (cosine: https://arxiv.org/abs/1608.03983, eq. 5)
warmup_stable_decay  stays at the peak, then falls linearly over the last `decay_share` of all steps
                     (MiniCPM, https://arxiv.org/abs/2404.06395, section 4.2; the linear fall is that of
                     https://arxiv.org/abs/2405.18392, eq. 1)
"""

import math
from typing import Literal

Decay = Literal["constant", "linear", "cosine", "warmup_stable_decay"]


def learning_rate(
    step: int,
    *,
    peak: float,
    num_warmup: int,
    num_steps: int,
    decay: Decay,
    final_share: float = 0.1,
    decay_share: float = 0.2,
) -> float:
    """The rate of step 0, 1, ...: a linear rise over `num_warmup` steps, then the schedule."""
    if step < num_warmup:
        return peak * (step + 1) / num_warmup
    progress = min(1.0, (step - num_warmup) / max(1, num_steps - num_warmup))
    match decay:
        case "constant":
            fallen = 0.0
        case "linear":
            fallen = progress
        case "cosine":
            fallen = (1 - math.cos(math.pi * progress)) / 2
        case "warmup_stable_decay":
            length = max(1.0, min(num_steps * decay_share, num_steps - num_warmup))
            fallen = min(1.0, max(0.0, (step - (num_steps - length)) / length))
    return peak * (1 - (1 - final_share) * fallen)
