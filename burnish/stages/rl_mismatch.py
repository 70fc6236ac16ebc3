"""How far the sampler was from the learner in a step: what means over tokens do not show.

The mean gap and the k3 estimate of the divergence are metrics of the loss (`rl_loss`). Here are the largest gap of a
token, and the smallest and largest ratio of a whole reply, learner to sampler: exp of the sum of its tokens' gaps,
which is what importance weights of replies are made of.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from burnish.objectives import Streams, ops

MISMATCH_LIMIT = {torch.float32: 1e-3, torch.bfloat16: 0.15}
"""What rounding explains, in nats a token on average."""


class Mismatch:
    """Gathers over the packs of a step."""

    def __init__(self) -> None:
        self._largest: list[Tensor] = []
        self._log_ratios: list[Tensor] = []

    def see(self, s: Streams) -> None:
        """Take note of a pack."""
        old_logprobs_T = ops.required(s.old_logprobs_T, "old_logprobs_T").detach()
        gap_T = old_logprobs_T - ops.required(s.rollout_logprobs_T, "rollout_logprobs_T")
        log_ratio_N = gap_T.new_zeros(int(s.sequence_T.max()) + 1).index_add(0, s.sequence_T, gap_T)
        self._largest.append(gap_T.abs().max())
        self._log_ratios.append(log_ratio_N)

    def clear(self) -> None:
        """Forget what was seen."""
        self._largest, self._log_ratios = [], []

    def absorb(self, other: object) -> None:
        """Add what a rank's copy has seen."""
        assert isinstance(other, Mismatch)
        self._largest += other._largest
        self._log_ratios += other._log_ratios

    def take(self) -> Mapping[str, float]:
        """What was seen since the last call, as metrics."""
        if not self._largest:
            return {}
        log_ratios_N = torch.cat(self._log_ratios)
        ratios_N = ops.importance_ratio(log_ratios_N, torch.zeros_like(log_ratios_N))  # held where it would overflow
        largest = float(torch.stack(self._largest).max())
        self.clear()
        return {
            "mismatch_max": largest,
            "mismatch_sequence_min": float(ratios_N.min()),
            "mismatch_sequence_max": float(ratios_N.max()),
        }
