"""Rewards on one scale: worked by hand, and invariant under what must not matter."""

import random
from statistics import fmean, pstdev

import pytest

from burnish.rewards.normalisers import Running, RunningState, by_component, by_group, by_rank, clipped


def test_by_group_worked_by_hand() -> None:
    assert by_group([0.0, 0.0, 3.0, 1.0]) == pytest.approx([-0.8164966, -0.8164966, 1.6329932, 0.0])


def test_by_rank_worked_by_hand() -> None:
    assert by_rank([5.0, 900.0, 5.0, 1.0]) == pytest.approx([0.0, 1.0, 0.0, -1.0])
    assert by_rank([7.0]) == [0.0]


@pytest.mark.parametrize("normalise", [by_group, by_rank])
def test_scale_and_offset_of_a_domain_do_not_matter(normalise) -> None:
    rewards = [0.1, 0.9, 0.4, 0.4]
    assert normalise([1000 * reward + 7 for reward in rewards]) == pytest.approx(normalise(rewards))


@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3, 1e9])
def test_constant_rewards_come_to_nothing(value: float) -> None:
    assert by_group([value] * 7) == [0.0] * 7
    assert by_rank([value] * 7) == [0.0] * 7
    assert Running()([value] * 7) == [0.0] * 7


def test_equal_totals_by_different_parts_stay_different() -> None:
    parts = [{"outcome": 1.0, "format": 0.0}, {"outcome": 0.0, "format": 1.0}, {"outcome": 0.0}, {"outcome": 0.0}]
    totals = by_component(parts, {"outcome": 1.0, "format": 0.5})
    column = by_group([1.0, 0.0, 0.0, 0.0])
    assert totals[0] == pytest.approx(column[0] + 0.5 * column[1])
    assert totals[1] == pytest.approx(column[1] + 0.5 * column[0])
    assert totals[2] == totals[3] == pytest.approx(1.5 * column[1])


def test_the_running_moments_are_those_of_all_values_while_few_are_forgotten() -> None:
    rng = random.Random(1)
    values = [rng.gauss(1e6, 3.0) for _ in range(500)]
    running = Running(half_life=1e12)
    for start in range(0, 500, 7):
        newest = running(values[start : start + 7])
    expected = [(value - fmean(values)) / pstdev(values) for value in values[497:]]
    assert newest == pytest.approx(expected, rel=1e-6)


def test_the_first_rewards_are_as_sound_as_the_rest() -> None:
    running = Running()
    seen = [reward for _ in range(25) for reward in running([0.0, 0.0, 0.0, 1000.0])]
    assert max(map(abs, seen)) < 1.8
    assert seen[:4] == pytest.approx(seen[-4:])


def test_an_old_reward_counts_half_after_a_half_life() -> None:
    running = Running(half_life=100)
    running([10.0] * 100_000)
    running([0.0] * 100)
    kept = 100_000 * 0.5
    assert running.state.mean == pytest.approx(10 * kept / (kept + 100))


def test_a_domain_of_points_and_one_of_right_or_wrong_get_the_same_spread() -> None:
    rng = random.Random(2)
    points, right = Running(), Running()
    spreads = {"points": 0.0, "right": 0.0}
    for _ in range(200):
        spreads["points"] += sum(value**2 for value in points([rng.uniform(0, 1000) for _ in range(8)]))
        spreads["right"] += sum(value**2 for value in right([float(rng.random() < 0.5) for _ in range(8)]))
    assert spreads["points"] == pytest.approx(spreads["right"], rel=0.05)


def test_what_a_checkpoint_keeps_is_all_there_is() -> None:
    running = Running()
    running([0.2, 0.9, 0.5])
    restored = Running(RunningState.model_validate_json(running.state.model_dump_json()))
    assert restored([0.1, 0.7]) == running([0.1, 0.7])


def test_clipping_cuts_both_ends() -> None:
    assert clipped([-9.0, 0.5, 9.0], 2.0) == [-2.0, 0.5, 2.0]
