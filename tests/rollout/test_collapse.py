"""A collapse of the entropy is told once, when it shows; ordinary decline is not."""

import pytest

from burnish.core.errors import InvariantError
from burnish.rollout.collapse import check_floor, collapse_message


def told_at(entropies: list[float]) -> list[int]:
    return [step for step in range(len(entropies)) if collapse_message(entropies[: step + 1])]


@pytest.mark.parametrize(
    ("entropies", "steps"),
    [
        ([1.0, 1.2, 0.8, 0.09, 0.09, 0.09, 0.01, 0.0], [5]),  # three in a row below a tenth of 1.0
        ([1.0, 1.2, 0.8, 0.09, 0.11, 0.09, 0.09], []),  # never three in a row
        ([0.02, 0.02, 0.02, 0.01, 0.01, 0.01, 0.003], []),  # low from the start is how these tasks are
        ([1.0, 1.0, 1.0, 0.05, 0.05, 0.05, 0.5, 0.05, 0.05, 0.05], [5, 9]),  # it recovered, and fell again
        ([1.0, 0.01], []),
    ],
)
def test_a_collapse_is_told_once_each_time(entropies: list[float], steps: list[int]) -> None:
    assert told_at(entropies) == steps


def test_the_message_has_both_figures() -> None:
    message = collapse_message([1.0, 1.2, 0.8, 0.09, 0.08, 0.07])
    assert message is not None
    assert "0.0700 nats a token, 1.0000 in the first steps" in message


def test_below_the_floor_the_run_stops() -> None:
    check_floor(0.2, 0.2)
    with pytest.raises(InvariantError, match=r"0\.1000 nats a token, below entropy_floor = 0\.2"):
        check_floor(0.1, 0.2)
