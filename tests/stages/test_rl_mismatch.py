"""What a step says of how far sampler and learner are apart."""

import pytest
import torch

from burnish.objectives import Streams
from burnish.stages.rl_mismatch import Mismatch


def _pack(old: list[float], rollout: list[float], sequence: list[int]) -> Streams:
    old_T = torch.tensor(old)
    return Streams(
        new_logprobs_T=old_T,
        weights_T=torch.ones(len(old)),
        sequence_T=torch.tensor(sequence),
        old_logprobs_T=old_T,
        rollout_logprobs_T=torch.tensor(rollout),
    )


def test_the_largest_gap_and_the_ratios_of_whole_replies_are_over_all_packs():
    mismatch = Mismatch()
    mismatch.see(_pack([-1.0, -2.0, -0.5], [-1.1, -2.2, -0.1], [0, 0, 1]))
    mismatch.see(_pack([-3.0], [-2.5], [0]))
    measured = mismatch.take()
    assert measured["mismatch_max"] == pytest.approx(0.5)
    assert measured["mismatch_sequence_max"] == pytest.approx(torch.tensor(0.3).exp().item())
    assert measured["mismatch_sequence_min"] == pytest.approx(torch.tensor(-0.5).exp().item())
    assert mismatch.take() == {}
