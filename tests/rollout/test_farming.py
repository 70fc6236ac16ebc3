"""The alarm rings for a farmer, and for nobody who learns."""

import random

import pytest

from burnish.rollout.farming import WINDOW, Habits, farming_message, is_farming


def history(solved: tuple[float, float], process: tuple[float, float], *, noise: float = 0.03) -> list[Habits]:
    """Steps that go from one level to the other, evenly."""
    rng = random.Random(1)
    shares = [step / (2 * WINDOW - 1) for step in range(2 * WINDOW)]

    def at(ends: tuple[float, float], share: float) -> float:
        return ends[0] + (ends[1] - ends[0]) * share + rng.uniform(-noise, noise)

    return [Habits(at(solved, share), at(process, share)) for share in shares]


@pytest.mark.parametrize(
    ("solved", "process", "rings"),
    [
        ((0.3, 0.3), (0.2, 0.7), True),  # a farmer
        ((0.3, 0.1), (0.2, 0.7), True),  # a farmer that forgets how to solve
        ((0.3, 0.7), (0.2, 0.7), False),  # a learner
        ((0.3, 0.5), (0.2, 0.7), False),  # a slower learner
        ((0.3, 0.3), (0.2, 0.25), False),  # nothing much happens
        ((0.3, 0.3), (0.7, 0.2), False),  # habits are lost
    ],
)
def test_it_rings_where_habits_rise_and_solutions_do_not(
    solved: tuple[float, float], process: tuple[float, float], rings: bool
) -> None:
    assert is_farming(history(solved, process)) is rings


def test_it_is_told_once_with_the_numbers() -> None:
    steps = history((0.3, 0.3), (0.2, 0.2), noise=0.0) + history((0.3, 0.3), (0.8, 0.8), noise=0.0)
    told = [end for end in range(1, len(steps) + 1) if farming_message("code", steps[:end]) is not None]
    assert len(told) == 1
    message = farming_message("code", steps[: told[0]])
    assert message is not None
    assert message.startswith("code: failures collect process parts (from 0.20 to ")
    assert "while solved replies went from 0.30 to 0.30" in message


def test_noise_alone_does_not_ring() -> None:
    rng = random.Random(2)
    quiet = [Habits(rng.random(), rng.uniform(0.2, 0.8)) for _ in range(400)]
    assert sum(is_farming(quiet[:end]) for end in range(len(quiet))) <= 8


def test_a_few_steps_say_nothing() -> None:
    assert not is_farming([Habits(0.5, 0.0)] * (WINDOW - 1) + [Habits(0.5, 1.0)] * WINDOW)
