"""GAE: its limits, worked by hand."""

import torch

from burnish.objectives import gae

REWARDS = torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64)
VALUES = torch.tensor([0.5, 0.25, 1.0], dtype=torch.float64)
ALL = torch.ones(3, dtype=torch.bool)


def test_lambda_one_is_the_discounted_return_less_the_value(close):
    found = gae.estimate(REWARDS, VALUES, ALL, gamma=0.5, lam=1.0)
    assert close(found.returns_T, [0 + 0.5 * 1 + 0.25 * 2, 1 + 0.5 * 2, 2.0])


def test_lambda_zero_is_the_one_step_surprise(close):
    found = gae.estimate(REWARDS, VALUES, ALL, gamma=0.5, lam=0.0)
    assert close(found.advantages_T, [0.5 * 0.25 - 0.5, 1 + 0.5 * 1.0 - 0.25, 2 - 1.0])


def test_a_sequence_that_was_cut_off_goes_on_with_the_bootstrap_value(close):
    found = gae.estimate(REWARDS, VALUES, ALL, gamma=0.5, lam=0.0, bootstrap=8.0)
    assert close(found.advantages_T[-1], 2 + 0.5 * 8 - 1.0)


def test_a_reward_at_an_observation_goes_to_the_token_before(close):
    mask_T = torch.tensor([True, False, False])
    found = gae.estimate(REWARDS, VALUES, mask_T, gamma=0.5, lam=0.95)
    assert close(found.advantages_T, [3 - 0.5, 0.0, 0.0])


def test_observations_at_the_front_change_nothing(close):
    mask_T = torch.tensor([False, True, True])
    whole = gae.estimate(REWARDS, VALUES, mask_T)
    tail = gae.estimate(REWARDS[1:], VALUES[1:], ALL[1:])
    assert close(whole.advantages_T[1:], tail.advantages_T)


def test_a_reward_at_an_observation_is_credited_once(close):
    mask_T = torch.tensor([True, True, False])
    found = gae.estimate(REWARDS, VALUES, mask_T, gamma=1.0, lam=0.0)
    assert close(found.advantages_T, [0.25 - 0.5, 1 + 2 - 0.25, 0.0])
