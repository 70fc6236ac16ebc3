"""Ranges of an objective's options, checked when its `Config` is made: a number that means nothing is one clear line.

A NaN lies in no range. Upper ends are infinite where a bound may be off. What an option needs beside it, without which
it is not read, is `NEEDS_OPTION` of the objective's file (`dialects.with_options`).
"""

import math
from typing import NamedTuple


class Range(NamedTuple):
    """The numbers from `low` to `high`; `low` itself is left out where the range is open there."""

    low: float
    high: float = math.inf
    is_open: bool = False

    def holds(self, value: float) -> bool:
        """Whether a number lies in the range."""
        return (self.low < value if self.is_open else self.low <= value) and value <= self.high

    def __str__(self) -> str:
        """Say it as a message does."""
        if math.isinf(self.low):
            return "a number"
        least = f"above {self.low:g}" if self.is_open else f"at least {self.low:g}"
        return least if math.isinf(self.high) else f"{least} and at most {self.high:g}"


ANY = Range(-math.inf)
ABOVE_0 = Range(0, is_open=True)
AT_LEAST_0 = Range(0)
AT_LEAST_1 = Range(1)
ABOVE_1 = Range(1, is_open=True)
SHARE = Range(0, 1)
CLIP_LOW = Range(0, 1, is_open=True)
"""How far below 1 a ratio may fall, which is never below 0."""


def check(config: object, **ranges: Range) -> None:
    """`ValueError` at the first option of a config outside its range."""
    for name, allowed in ranges.items():
        value = getattr(config, name)
        if not allowed.holds(value):
            raise ValueError(f"{name} is {allowed}; got {value}")
