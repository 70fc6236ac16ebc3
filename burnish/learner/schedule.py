"""Learning-rate schedules: pure functions of the step."""

import math
from typing import Literal

Decay = Literal["constant", "linear", "cosine"]


def learning_rate(
    step: int, *, peak: float, num_warmup: int, num_steps: int, decay: Decay, final_share: float = 0.1
) -> float:
    """The rate of step 0, 1, ...: a linear rise over `num_warmup` steps, then a decay to `final_share * peak`."""
    if step < num_warmup:
        return peak * (step + 1) / num_warmup
    progress = min(1.0, (step - num_warmup) / max(1, num_steps - num_warmup))
    match decay:
        case "constant":
            share = 1.0
        case "linear":
            share = 1 - (1 - final_share) * progress
        case "cosine":
            share = final_share + (1 - final_share) * (1 + math.cos(math.pi * progress)) / 2
    return peak * share
