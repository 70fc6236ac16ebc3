"""A mean with its 95 % confidence interval: the one number that evaluations hand to reports."""

from typing import NamedTuple


class Interval(NamedTuple):
    """The mean of `n` scored tasks and the bounds of its 95 % interval."""

    mean: float
    low: float
    high: float
    n: int
