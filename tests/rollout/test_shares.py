"""From weights and measurements to shares, worked by hand."""

import pytest

from burnish.rollout.shares import by_signal, by_slips, by_temperature, with_least


def test_a_temperature_of_one_keeps_the_weights_and_a_large_one_levels_them() -> None:
    weights = {"a": 9.0, "b": 1.0, "c": 0.0}
    assert by_temperature(weights, 1.0) == pytest.approx({"a": 0.9, "b": 0.1, "c": 0.0})
    assert by_temperature(weights, 2.0) == pytest.approx({"a": 0.75, "b": 0.25, "c": 0.0})
    assert by_temperature({"a": 1e300, "b": 1e299}, 1e3) == pytest.approx({"a": 0.5, "b": 0.5}, abs=1e-3)


def test_signal_multiplies_weights_and_no_signal_at_all_leaves_them() -> None:
    weights = {"a": 1.0, "b": 3.0}
    assert by_signal(weights, {"a": 0.6, "b": 0.1}) == pytest.approx({"a": 2 / 3, "b": 1 / 3})
    assert by_signal(weights, {"a": 0.0, "b": 0.0}) == {"a": 0.25, "b": 0.75}


def test_what_has_slipped_gets_more() -> None:
    assert by_slips({"a": 1.0, "b": 1.0}, {"a": 0.5}, strength=4.0) == {"a": 0.75, "b": 0.25}


def test_the_least_share_is_paid_by_the_others_in_proportion() -> None:
    shares = {"a": 0.6, "b": 0.35, "c": 0.05, "waiting": 0.0}
    found = with_least(shares, 0.6)  # 0.6 of a third
    assert found == pytest.approx({"a": 0.8 * 0.6 / 0.95, "b": 0.8 * 0.35 / 0.95, "c": 0.2, "waiting": 0.0})
    assert with_least(shares, 0.0) == shares
    assert with_least({"a": 0.7, "b": 0.2, "c": 0.1}, 1.0) == pytest.approx(dict.fromkeys("abc", 1 / 3))


def test_raising_one_share_may_bring_the_next_below_the_least() -> None:
    found = with_least({"a": 0.85, "b": 0.11, "c": 0.04}, 0.3)
    assert found == pytest.approx({"a": 0.8, "b": 0.1, "c": 0.1}, abs=5e-3)
    assert min(found.values()) >= 0.1 - 1e-12
