"""Which domains made a guarded suite worse, from what each trained in the stretches that passed and that failed.

A stretch lies between a promoted checkpoint and the gate that judged its successor. A domain's suspicion is the part
of its training that ended in failure: failed / (failed + passed), each the sum of its shares of the training in those
stretches. A domain that was there in stretches that passed is suspected less than one that has just entered.

Decisions: what slipped is not blamed while there is anybody else; the most suspected loses `cut` of its share and
others in proportion to their suspicion; a share that has come below `LEAST` of what it was is 0, so that what is
harmful leaves after a few failures. Not covered: domains that always train together, which are suspected alike; harm
that a gate sees only after it promoted.
"""

from collections.abc import Collection, Mapping
from typing import Final

LEAST: Final = 0.02
SMOOTHING: Final = 0.05
RAISE: Final = 1.5
"""By what the share of a domain that slipped is multiplied, at each roll-back, until a gate passes."""
MOST: Final = 4.0


def suspicions(failed: Mapping[str, float], passed: Mapping[str, float]) -> dict[str, float]:
    """From 0 to 1: the part of each domain's training that ended in failure."""
    return {name: amount / (amount + passed.get(name, 0.0) + SMOOTHING) for name, amount in failed.items()}


def after_failure(
    factors: Mapping[str, float], failed: Mapping[str, float], passed: Mapping[str, float],
    slipped: Collection[str], trained: Mapping[str, float], *, cut: float,
) -> dict[str, float]:  # fmt: skip
    """The factors of the domains' shares after a roll-back; `trained` are the shares of the stretch that failed."""
    suspects = {name for name, share in trained.items() if share > 0}
    suspects = suspects - set(slipped) or suspects
    found = {name: value for name, value in suspicions(failed, passed).items() if name in suspects}
    worst = max(found.values(), default=0.0)
    lowered = {name: _lowered(factors.get(name, 1.0), cut * (value / worst)) for name, value in found.items()}
    raised = {name: min(MOST, factors.get(name, 1.0) * RAISE) for name in slipped if name not in suspects}
    return {**factors, **lowered, **raised}


def after_success(factors: Mapping[str, float]) -> dict[str, float]:
    """What was raised goes back; what was lowered stays so."""
    return {name: min(1.0, factor) for name, factor in factors.items() if factor < 1}


def _lowered(factor: float, by: float) -> float:
    lower = factor * (1 - by)
    return lower if lower >= LEAST else 0.0
