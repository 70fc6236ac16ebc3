"""Farming: process parts are collected by replies that do not solve the task, and more of them are solved no sooner.

Gated parts (`rewards.parts`) pay nothing to a failure, so this cannot raise a reward; where it shows all the same, a
part has become a habit, or the gate is too low, or the outcome can be had without the task. The rule compares two
windows of steps, the newest `WINDOW` with the `WINDOW` before:

* the mean process share of failures has risen by at least `LEAST_RISE`, and by more than two standard errors of the
  difference of the two means (from the spread of steps, Welch);
* the share of solved replies has risen by less than a quarter of that.

A learner passes, since its solutions rise with its habits. Not covered: farming that was there from the start.
"""

from collections.abc import Sequence
from statistics import fmean, variance
from typing import Final, NamedTuple

WINDOW: Final = 8
LEAST_RISE: Final = 0.1
LEAST_SOLVED: Final = 0.25
"""What solved replies must rise by, as a share of what process parts did."""


class Habits(NamedTuple):
    """A domain's replies at a step: the share that solved the task, and how much of the process parts failures had."""

    solved: float
    process_of_failures: float


def is_farming(history: Sequence[Habits]) -> bool:
    """Whether the newest steps look like farming; see the module's docstring."""
    if len(history) < 2 * WINDOW:
        return False
    before, newest = history[-2 * WINDOW : -WINDOW], history[-WINDOW:]
    old, new = ([habits.process_of_failures for habits in window] for window in (before, newest))
    rise = fmean(new) - fmean(old)
    error = ((variance(old) + variance(new)) / WINDOW) ** 0.5
    solved = fmean(habits.solved for habits in newest) - fmean(habits.solved for habits in before)
    return rise >= LEAST_RISE and rise > 2 * error and solved < LEAST_SOLVED * rise


def farming_message(domain: str, history: Sequence[Habits]) -> str | None:
    """Say so, if it shows at the newest step and did not at the one before."""
    if not is_farming(history) or is_farming(history[:-1]):
        return None
    before, newest = history[-2 * WINDOW : -WINDOW], history[-WINDOW:]
    process, solved = (
        f"{fmean(habits[which] for habits in before):.2f} to {fmean(habits[which] for habits in newest):.2f}"
        for which in (1, 0)
    )
    return (
        f"{domain}: failures collect process parts (from {process} of them in {2 * WINDOW} steps) while solved replies "
        f"went from {solved}; look at what they do in trajectories/, raise gate, or take a part out of reward.process"
    )
