"""Turn-wise advantages, worked by hand: what was earned before a turn is not its doing."""

import pytest

from burnish.core.types import Step, Trajectory, Verdict
from burnish.rollout.groups import Group, credit
from burnish.rollout.turn_credit import by_turn


def member(number: int, score: float, *earned: float) -> Trajectory:
    """An episode of turns of two tokens each, with two given ones before each turn."""
    steps = tuple(
        Step(first=2 + 4 * turn, end=4 + 4 * turn, reply="r", earned=share) for turn, share in enumerate(earned)
    )
    length = 4 * len(earned)
    was_sampled = tuple(place % 4 >= 2 for place in range(length))
    return Trajectory(
        group_id="g", member=number, task_id="t", prompt_hash="p", seed=0, token_ids=tuple(range(length)),
        was_sampled=was_sampled, logprobs=(-1.0,) * length, reply="r", stop_reason="eos", oldest_version=0,
        newest_version=0, verdict=Verdict.scored(score), steps=steps,
    )  # fmt: skip


def centred(rewards_G):
    return rewards_G - rewards_G.mean()


def test_a_token_is_compared_by_the_reward_that_was_still_to_come():
    """Turn 0: 0.9, 0.3 (mean 0.6). Turn 1: 0.9 - 0.2, 0.3 - 0.1 (mean 0.45). Turn 2: 0.7, and 0.3 - 0.1 for the end."""
    group = Group("g", "d", (member(0, 0.9, 0.2, 0.0, 0.5), member(1, 0.3, 0.1, 0.0)))
    rows = by_turn(group, credit([group], centred), centred)
    assert rows[0].token_advantages == pytest.approx((0.3, 0.3, 0.25, 0.25, 0.25, 0.25))
    assert rows[1].token_advantages == pytest.approx((-0.3, -0.3, -0.25, -0.25))
    assert [len(row.token_advantages or ()) == row.num_trained for row in rows] == [True, True]


def test_without_earnings_a_trajectory_has_one_advantage():
    group = Group("g", "d", (member(0, 1.0, 0.0, 0.0), member(1, 0.0, 0.0)))
    rows = by_turn(group, credit([group], centred), centred)
    assert [row.token_advantages for row in rows] == [(0.5,) * 4, (-0.5,) * 2]
