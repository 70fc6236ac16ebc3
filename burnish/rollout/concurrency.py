"""How many rollouts are in flight: more while nothing queues, fewer when memory or verdicts run short.

Additive increase, multiplicative decrease, as TCP does (Chiu and Jain 1989,
https://doi.org/10.1016/0169-7552(89)90019-6, who show that of the linear rules this one converges): each
`every_s` the limit grows by `growth × most` if it was reached and no measured quantity is near its bound, and
shrinks by `backoff` if one is beyond it. Between the two it stays.
"""

from typing import NamedTuple

from burnish.rollout.scheduler_config import ConcurrencyRules
from burnish.rollout.scheduler_types import Load


class Limit(NamedTuple):
    """The limit and when it was last looked at."""

    value: float
    at_s: float


def follow(limit: Limit, load: Load, rules: ConcurrencyRules, num_in_flight: int, now_s: float) -> Limit:
    """The limit after what was measured."""
    if now_s - limit.at_s < rules.every_s:
        return limit
    value = limit.value
    if _is_short(load, rules):
        value = max(rules.least, min(value, max(num_in_flight, 1)) * rules.backoff)
    elif _has_room(load, rules) and num_in_flight >= int(value):
        value = min(rules.most, value + max(1.0, rules.growth * rules.most))
    return Limit(value, now_s)


def _is_short(load: Load, rules: ConcurrencyRules) -> bool:
    return (
        (load.kv_used is not None and load.kv_used > rules.kv_high)
        or (load.num_waiting is not None and load.num_waiting > rules.most_waiting)
        or _verdicts_a_sandbox(load) > rules.most_verdicts_a_sandbox
    )


def _has_room(load: Load, rules: ConcurrencyRules) -> bool:
    return (load.kv_used is None or load.kv_used < rules.kv_low) and (
        _verdicts_a_sandbox(load) < rules.most_verdicts_a_sandbox / 2
    )


def _verdicts_a_sandbox(load: Load) -> float:
    if load.num_waiting_verdicts is None or not load.num_sandboxes:
        return 0.0
    return load.num_waiting_verdicts / load.num_sandboxes
