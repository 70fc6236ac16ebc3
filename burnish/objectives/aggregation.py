"""How token losses become one number: a weight for each token, and one divisor for the whole batch.

`sum(weights_T * loss_T) / global_weight` is the paper's aggregate. A token's weight depends on the length
of its own sequence alone, and the divisor is a sum over sequences: micro-batches, packing and the number
of data-parallel ranks cannot change the result, if the divisor is summed over the *whole* batch first.

token_mean           every token counts alike (DAPO, https://arxiv.org/abs/2503.14476, eq. 12)
seq_mean_token_mean  every sequence counts alike (GRPO, https://arxiv.org/abs/2402.03300, eq. 3)
seq_mean_token_sum   a sequence is one action (RLOO, https://arxiv.org/abs/2402.14740)
sum_over_max_length  a sum over a constant (Dr. GRPO, https://arxiv.org/abs/2503.20783)
pair_mean            every pair of replies counts alike (DPO, https://arxiv.org/abs/2305.18290, eq. 7)

Ours: means are over all sequences of the batch where the papers average groups of one prompt first; these
agree for the sequence means if groups have one size, and for `token_mean` DAPO's own code does as we do.
A sequence without a trained token (masked out) counts nowhere, not even in a divisor.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

Kind = Literal["token_mean", "seq_mean_token_mean", "seq_mean_token_sum", "sum_over_max_length", "pair_mean"]


class Aggregate(NamedTuple):
    """`weights_T` for the streams of some sequences, and their share of the global weight."""

    weights_T: Tensor
    global_weight: float


def token_weight(kind: Kind, length: int) -> float:
    """The weight of each trained token in a sequence that has `length` of them."""
    match kind:
        case "seq_mean_token_mean":
            return 1 / length
        case "pair_mean":
            return 1 / (2 * length)
        case "token_mean" | "seq_mean_token_sum" | "sum_over_max_length":
            return 1.0


def sequence_weight(kind: Kind, length: int, max_length: int) -> float:
    """What a sequence with `length` trained tokens adds to the global weight."""
    if length == 0:
        return 0.0
    match kind:
        case "token_mean":
            return float(length)
        case "seq_mean_token_mean" | "seq_mean_token_sum":
            return 1.0
        case "sum_over_max_length":
            return float(max_length)
        case "pair_mean":
            return 0.5


def weigh(kind: Kind, lengths_B: Sequence[int], *, max_length: int, dtype: torch.dtype = torch.float32) -> Aggregate:
    """Weigh sequences laid end to end, given how many trained tokens each has.

    `max_length` is the most tokens that a reply may have; only `sum_over_max_length` looks at it. The
    `global_weight` of several calls add up.
    """
    weights = [token_weight(kind, length) for length in lengths_B for _ in range(length)]
    return Aggregate(
        weights_T=torch.tensor(weights, dtype=dtype),
        global_weight=sum(sequence_weight(kind, length, max_length) for length in lengths_B),
    )
