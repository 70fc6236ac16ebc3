"""What both sides of `bench.time_to_reward` train on, and how. No package but Python's own."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

DOMAIN = "rg:letter_counting"
OPTIONS = {"min_words": 3, "max_words": 6}
NUM_EVAL = 20
PROMPTS, GROUP, NEW = 8, 8, 16
LEARNING_RATE = 3e-5
WINDOW = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """After a step: seconds since the first step began, and the mean reward of the step's replies."""

    seconds: float
    reward: float


def reached(points: Sequence[Point], target: float) -> int | None:
    """After how many steps the mean of the last `WINDOW` rewards was at the target for the first time."""
    for end in range(WINDOW, len(points) + 1):
        if fmean(point.reward for point in points[end - WINDOW : end]) >= target:
            return end
    return None
