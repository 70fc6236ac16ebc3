"""Where replies fail alike more often than elsewhere, tasks of that kind are drawn more often."""

import pytest

from burnish.rollout.corrections import CorrectionsConfig, Pattern, Tally, Target, find_targets, measured, weights_of
from burnish.rollout.standing import Seen


def group(place: str, failing: int, of: int = 10, part: str = "total") -> Seen:
    return Seen(
        domain="bills", mean=0.5, variance=0.1, trained=True, num_replies=of, places=(place,), faults={part: failing}
    )


TALLY = Tally().after([group("two columns", 8), group("plain", 1), group("plain", 1), group("faded", 0)])
CONFIG = CorrectionsConfig(least_failures=3)


def test_a_place_that_fails_more_than_the_others_is_a_target() -> None:
    (target,) = find_targets(TALLY, CONFIG)
    assert target.pattern == Pattern("bills", "two columns", "total")
    assert target.rate == pytest.approx(9 / 12)
    assert target.weight == 3.0  # (9 / 12) / (3 / 32), held at `most`
    assert weights_of([target]) == {"bills": {"two columns": 3.0}}


def test_few_failures_or_hardly_more_than_elsewhere_are_no_target() -> None:
    assert find_targets(TALLY, CorrectionsConfig(least_failures=9)) == []
    even = Tally().after([group("a", 6), group("b", 5)])
    assert find_targets(even, CONFIG) == []


def test_a_place_with_two_patterns_has_the_weight_of_the_heavier() -> None:
    one, other = Pattern("d", "p", "x"), Pattern("d", "p", "y")
    targets = [Target(pattern=pattern, rate=0.5, num_replies=9, weight=w) for pattern, w in [(one, 2.0), (other, 1.6)]]
    assert weights_of(targets) == {"d": {"p": 2.0}}


def test_what_became_of_a_target_is_the_rate_of_newer_replies() -> None:
    targets = find_targets(TALLY, CONFIG)
    (found,) = measured(targets, Tally().after([group("two columns", 1, of=18)]))
    assert (found["rate"], found["rate_after"], found["num_replies_after"]) == (9 / 12, 2 / 20, 18)
