"""The bench of interactions: where a reward is reached, and means over seeds."""

import pytest

from bench.interactions import interactions_to, mean_of


@pytest.mark.parametrize(
    ("target", "at"),
    [(0.2, 0.0), (0.3, 50.0), (0.5, 150.0), (0.6, 200.0), (0.7, None)],
)
def test_a_reward_is_reached_between_measurements_by_its_share(target: float, at: float | None) -> None:
    curve = [(0.0, 0.2), (100.0, 0.4), (200.0, 0.6)]
    assert interactions_to(curve, target) == (at if at is None else pytest.approx(at))


def test_what_fell_before_it_rose_is_reached_when_it_rises() -> None:
    assert interactions_to([(0.0, 0.5), (10.0, 0.1), (20.0, 0.9)], 0.6) == pytest.approx(16.25)


def test_a_mean_curve_is_the_mean_of_its_points() -> None:
    assert mean_of([[(0.0, 0.1), (8.0, 0.3)], [(0.0, 0.3), (6.0, 0.5)]]) == [(0.0, pytest.approx(0.2)), (7.0, 0.4)]
