"""Is a checkpoint no worse than another, by more than a margin? Pass, fail, or inconclusive: needs n more.

Two bets are made on the paired differences of the scores, task after task: one that their mean lies above -margin,
one that it lies below. If the mean is -margin or on the other side, a bettor's capital is a nonnegative
supermartingale that starts at 1, so it ever reaches 1/alpha with probability alpha at most (Ville's inequality).
The test therefore holds for any number of tasks and however often one looks: more tasks may be added until it
answers, and no correction for looks is needed. Source: Waudby-Smith and Ramdas, "Estimating means of bounded random
variables by betting" (JRSS B 2024, https://arxiv.org/abs/2010.09686), Theorem 3 and its predictable plug-in bets,
with the planned number of tasks in place of t log(t + 1), which is as valid, and sharper near that number.

Tasks must be in an order that does not depend on the scores, and `num_planned` the same at each look. Tasks that
share a source count as one, their mean, where there are at least `MIN_CLUSTERS` sources (`statistics`); bets are made
on sources in the order in which they come. What was bet on must stay as it was: later looks add whole sources, and the
first look has `MIN_CLUSTERS` of them. Several checkpoints and suites in one run: `share_of_alpha`.

Covered: any scores in [0, 1], any dependence between the two models' scores. Not covered: tasks that were chosen by
their results.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from burnish.evals.statistics import Floats, unit_totals

MOST_STAKED: Final = 0.75
"""The part of the capital that a bet may lose at most, against ruin by one task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the tasks so far say. If the rest are like them, `num_more` would answer; 0 once there is an answer."""

    kind: Literal["pass", "fail", "inconclusive"]
    mean: float
    num_units: int
    num_more: int
    log_capital_above: float
    log_capital_below: float


def judge(
    before: Sequence[float],
    after: Sequence[float],
    clusters: Sequence[str] = (),
    *,
    margin: float,
    alpha: float,
    num_planned: int,
) -> Answer:
    """Test whether `after` is worse than `before` by more than `margin`, each error at most `alpha`.

    Args:
        before: scores in [0, 1], one a task, in an order that was fixed beforehand.
        after: the same tasks' scores by the other model.
        clusters: what each task shares with others; empty: nothing.
        margin: how much worse is still no worse, in score; above 0.
        alpha: the most that a wrong pass, and a wrong fail, may each have as probability.
        num_planned: how many tasks (or sources) are expected in all; sharpest there, valid everywhere.

    Raises:
        ValueError: where the scores do not pair, or an option is out of range.
    """
    if not 0 < margin < 1 or not 0 < alpha < 1 or num_planned < 1:
        raise ValueError(
            f"margin and alpha lie between 0 and 1, num_planned is at least 1; got {margin}, {alpha}, {num_planned}"
        )
    if len(before) != len(after):
        raise ValueError(f"the scores must pair: got {len(before)} before and {len(after)} after")
    if not before:
        return Answer(kind="inconclusive", mean=0.0, num_units=0, num_more=num_planned,
                      log_capital_above=0.0, log_capital_below=0.0)  # fmt: skip
    differences_N = np.asarray(after, dtype=float) - np.asarray(before, dtype=float)
    sums_U, sizes_U = unit_totals(differences_N, _numbered(clusters))
    units_U = (sums_U / sizes_U + 1) / 2
    null = (1 - margin) / 2
    above = log_capital(units_U, null, alpha=alpha, num_planned=num_planned)
    below = log_capital(1 - units_U, 1 - null, alpha=alpha, num_planned=num_planned)
    return _answer(above, below, -math.log(alpha), float(units_U.mean()) * 2 - 1, len(units_U))


def log_capital(units_U: Floats, null: float, *, alpha: float, num_planned: int) -> Floats:
    """The log of the capital of one who bets that the mean of values in [0, 1] lies above `null`, after each value."""
    counts_U = np.arange(1, len(units_U) + 1)
    means_U = (0.5 + np.cumsum(units_U)) / (counts_U + 1)
    variances_U = (0.25 + np.cumsum((units_U - means_U) ** 2)) / (counts_U + 1)
    known_U = np.concatenate(([0.25], variances_U[:-1]))  # a bet knows only what came before
    stakes_U = np.minimum(np.sqrt(2 * math.log(2 / alpha) / (num_planned * known_U)), MOST_STAKED / null)
    return np.cumsum(np.log1p(stakes_U * (units_U - null)))


def share_of_alpha(alpha: float, *, num_suites: int, look: int) -> float:
    """The part of a run's alpha for one suite at the run's gate number `look` (from 1), however many gates follow.

    The parts of all gates sum to alpha: 6 / (pi look)² of it each, split evenly over the suites (union bound).
    """
    return alpha * 6 / (math.pi * look) ** 2 / num_suites


def _answer(above_U: Floats, below_U: Floats, needed: float, mean: float, num_units: int) -> Answer:
    when = {"pass": _first(above_U >= needed), "fail": _first(below_U >= needed)}
    kind: Literal["pass", "fail", "inconclusive"] = "inconclusive"
    if min(when.values()) < num_units:
        kind = "pass" if when["pass"] < when["fail"] else "fail"
    return Answer(
        kind=kind,
        mean=mean,
        num_units=num_units,
        num_more=0 if kind != "inconclusive" else _num_more(max(above_U[-1], below_U[-1]), needed, num_units),
        log_capital_above=float(above_U[-1]),
        log_capital_below=float(below_U[-1]),
    )


def _numbered(clusters: Sequence[str]) -> list[str]:
    """Names that sort as the clusters come, so that those of a later look come behind."""
    places = {name: place for place, name in enumerate(dict.fromkeys(clusters))}
    return [f"{places[name]:09}" for name in clusters]


def _first(holds_U: NDArray[np.bool_]) -> int:
    return int(holds_U.argmax()) if holds_U.any() else len(holds_U)


def _num_more(log_capital_now: float, needed: float, num_units: int) -> int:
    """Log capital grows in proportion to the tasks; where it has not grown, as many again."""
    if log_capital_now <= needed / 20:
        return num_units
    return math.ceil(num_units * (needed / log_capital_now - 1))
