"""GAE: what observations do to it; its numbers are in the kernel."""

import torch

from burnish.objectives import gae

REWARDS = torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64)
VALUES = torch.tensor([0.5, 0.25, 1.0], dtype=torch.float64)
ALL = torch.ones(3, dtype=torch.bool)


def test_a_reward_at_an_observation_goes_to_the_token_before(close):
    mask_T = torch.tensor([True, False, False])
    found = gae.estimate(REWARDS, VALUES, mask_T, gamma=0.5, lam=0.95)
    assert close(found.advantages_T, [3 - 0.5, 0.0, 0.0])


def test_observations_at_the_front_change_nothing(close):
    mask_T = torch.tensor([False, True, True])
    whole = gae.estimate(REWARDS, VALUES, mask_T)
    tail = gae.estimate(REWARDS[1:], VALUES[1:], ALL[1:])
    assert close(whole.advantages_T[1:], tail.advantages_T)
