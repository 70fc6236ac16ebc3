"""How long will this reply be? From the group's own finished members, and the history of its domain.

Lengths are taken as log-normal: log length = domain mean + the prompt's offset + the member's own. The prompt's
mean given its finished members is the normal-normal posterior (Gelman et al., Bayesian Data Analysis, 3rd ed.,
eq. 2.11): precision-weighted between the members' mean log length and the domain's. That members of a group
resemble each other is what Seer (https://arxiv.org/abs/2511.14617) schedules by. For a member that runs
already, the mean of what is longer than its length so far (the conditional mean of a log-normal).

Old lengths fade: at most `MOST_WEIGHT` observations count.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

MOST_WEIGHT = 512.0
UNKNOWN_LOG_MEAN = math.log(256)
UNKNOWN_LOG_VARIANCE = 1.0


@dataclass(slots=True)
class Moments:
    """Mean and variance of a stream that forgets."""

    weight: float = 0.0
    mean: float = 0.0
    variance: float = 0.0

    def add(self, value: float) -> None:
        """Welford's update; from `MOST_WEIGHT` on, an exponential one."""
        self.weight = self.weight + 1 if self.weight < MOST_WEIGHT - 1 else MOST_WEIGHT
        delta = value - self.mean
        self.mean += delta / self.weight
        self.variance += (delta * (value - self.mean) - self.variance) / self.weight


class LogNormal(NamedTuple):
    """A prediction."""

    log_mean: float
    log_variance: float

    @property
    def mean(self) -> float:
        """The expected value."""
        return math.exp(self.log_mean + self.log_variance / 2)

    def mean_beyond(self, length: float) -> float:
        """The expected value of those that are longer than `length`."""
        if length < 1:
            return self.mean
        deviation = math.sqrt(max(self.log_variance, 1e-6))
        z = (math.log(length) - self.log_mean) / deviation
        beyond = _upper_tail(z)
        return self.mean * _upper_tail(z - deviation) / beyond if beyond > 1e-12 else length


def predict(domain: Moments, within: Moments, num_finished: int, sum_of_logs: float) -> LogNormal:
    """Predict a member's length; `domain` is of log lengths, `within` of their variance inside a group."""
    mean, total = (domain.mean, domain.variance) if domain.weight >= 2 else (UNKNOWN_LOG_MEAN, UNKNOWN_LOG_VARIANCE)
    inside = min(within.mean, total) if within.weight else total / 2
    between = total - inside
    if not num_finished:
        return LogNormal(mean, total)
    if inside <= 0:
        return LogNormal(sum_of_logs / num_finished, 0.0)
    precision = num_finished / inside + (1 / between if between > 0 else math.inf)
    if math.isinf(precision):
        return LogNormal(mean, inside)
    posterior = (sum_of_logs / inside + mean / between) / precision
    return LogNormal(posterior, inside + 1 / precision)


def _upper_tail(z: float) -> float:
    return math.erfc(z / math.sqrt(2)) / 2
