"""Distributions of lengths and delays: log-normal, empirical, and mixtures of both.

Each is turned into a table of its quantiles once; a draw looks up a uniform number. So the members of a group
can be made alike in whatever distribution: their uniform numbers come from a Gaussian copula with correlation
`alike` (Nelsen, An Introduction to Copulas, 2nd ed., section 2.3). Not covered: quantiles beyond 1 - 1 / (2
NUM_QUANTILES), which are cut off.
"""

import math
import random
from collections.abc import Sequence
from itertools import pairwise
from statistics import NormalDist
from typing import Annotated, Self

from pydantic import Field, model_validator

from burnish.core.config import Strict

NUM_QUANTILES = 2048


class LogNormal(Strict):
    """exp(N(log median, sigma²)); `sigma = 0` is a constant."""

    median: float = Field(gt=0, le=1e12)
    sigma: float = Field(default=0.0, ge=0, le=20)

    def quantiles(self, num: int) -> list[float]:
        """At the middles of `num` equal parts."""
        normal = NormalDist()
        return [self.median * math.exp(self.sigma * normal.inv_cdf((i + 0.5) / num)) for i in range(num)]


class Empirical(Strict):
    """Measured values, all equally likely."""

    values: list[Annotated[float, Field(ge=0)]] = Field(min_length=1)

    def quantiles(self, num: int) -> list[float]:
        """At the middles of `num` equal parts."""
        ordered = sorted(self.values)
        return [ordered[(2 * i + 1) * len(ordered) // (2 * num)] for i in range(num)]


class Part(Strict):
    """One part of a mixture."""

    share: float = Field(gt=0)
    of: LogNormal | Empirical


class Mixture(Strict):
    """Each part with its share; shares sum to 1."""

    parts: list[Part] = Field(min_length=1)

    @model_validator(mode="after")
    def _shares_sum_to_one(self) -> Self:
        total = sum(part.share for part in self.parts)
        if abs(total - 1) > 1e-6:
            raise ValueError(f"the shares of a mixture sum to 1; got {total:g}")
        return self

    def quantiles(self, num: int) -> list[float]:
        """Those of the parts, each as many as its share."""
        bounds = [0.0]
        for part in self.parts:
            bounds.append(bounds[-1] + part.share * num)
        counts = [round(high) - round(low) for low, high in pairwise(bounds)]
        several = [part.of.quantiles(count) for part, count in zip(self.parts, counts, strict=True) if count]
        return sorted(value for values in several for value in values)


Distribution = LogNormal | Empirical | Mixture


class Table:
    """A distribution, ready to draw from."""

    def __init__(self, distribution: Distribution) -> None:
        self.quantiles: Sequence[float] = distribution.quantiles(NUM_QUANTILES)

    @property
    def mean(self) -> float:
        """The mean of what is drawn."""
        return math.fsum(self.quantiles) / len(self.quantiles)

    def at(self, uniform: float) -> float:
        """The quantile."""
        return self.quantiles[min(int(uniform * len(self.quantiles)), len(self.quantiles) - 1)]


def alike(common: float, share: float, generator: random.Random) -> float:
    """A uniform number; those with the same normal number `common` correlate by `share`."""
    own = generator.gauss(0.0, 1.0)
    return (1 + math.erf((math.sqrt(share) * common + math.sqrt(1 - share) * own) / math.sqrt(2))) / 2
