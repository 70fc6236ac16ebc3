"""Rewards of different domains on one scale, so that none shouts the others down: pure functions and one running state.

- `by_group`: less the group's mean, by its standard deviation (GRPO's own, https://arxiv.org/abs/2402.03300).
- `by_rank`: the rank within the group, ties sharing theirs, spread evenly from -1 to 1: only the order counts.
- `Running`: less the domain's mean, by its standard deviation, over all that it gave so far, the newest counting
  most. It keeps what `by_group` takes away: that one group's members differ more than another's.
- `by_component`: each part by itself over the group, then their weighted sum (GDPO, https://arxiv.org/abs/2601.05242):
  totals that are equal by different parts stay different. GDPO's last step, over the batch, is the objective's.

Decisions: the standard deviation is the population's. Where it is 0, or no more than rounding leaves (constant
rewards), the result is 0. A batch is counted before it is normalised, so that the first is as sound as the rest.
Not covered: rewards that are no finite numbers; a verdict has none.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from burnish.core.config import Strict

Kind = Literal["none", "group", "running", "rank", "component"]
WITHIN_GROUP: Final[tuple[Kind, ...]] = ("group", "rank", "component")
"""Those that compare the replies to a prompt, so that one reply alone comes to 0."""
RUNNING_CLIP: Final = 5.0
"""Where the recipe clips nothing: the first success after a hundred failures is 10 standard deviations away."""
HALF_LIFE: Final = 2000
"""After so many newer rewards an old one counts half."""
ROUNDING: Final = 1e-9


def by_group(rewards_G: Sequence[float]) -> list[float]:
    """Zero mean and unit standard deviation within the group; zeros if all are alike."""
    mean = sum(rewards_G) / len(rewards_G)
    std = math.sqrt(sum((reward - mean) ** 2 for reward in rewards_G) / len(rewards_G))
    return _scaled(rewards_G, mean, std)


def by_rank(rewards_G: Sequence[float]) -> list[float]:
    """From -1 for the lowest to 1 for the highest; equals share the mean of their ranks."""
    if len(rewards_G) == 1:
        return [0.0]
    lower = [sum(other < reward for other in rewards_G) for reward in rewards_G]
    equal = [sum(other == reward for other in rewards_G) for reward in rewards_G]
    return [2 * (below + (same - 1) / 2) / (len(rewards_G) - 1) - 1 for below, same in zip(lower, equal, strict=True)]


def by_component(parts_G: Sequence[Mapping[str, float]], weights: Mapping[str, float]) -> list[float]:
    """The weighted sum of the parts, each normalised over the group; a part that a member lacks is 0."""
    columns = {name: by_group([parts.get(name, 0.0) for parts in parts_G]) for name in weights}
    return [sum(weight * columns[name][member] for name, weight in weights.items()) for member in range(len(parts_G))]


def clipped(rewards_G: Sequence[float], limit: float) -> list[float]:
    """Cut to plus or minus `limit`."""
    return [max(-limit, min(limit, reward)) for reward in rewards_G]


class RunningState(Strict):
    """What a checkpoint keeps of one domain: weighted count, mean, and sum of squared deviations."""

    weight: float = 0.0
    mean: float = 0.0
    squares: float = 0.0


@dataclass(slots=True)
class Running:
    """The running mean and standard deviation of one domain's rewards."""

    state: RunningState = field(default_factory=RunningState)
    half_life: float = HALF_LIFE

    def __call__(self, rewards_N: Sequence[float]) -> list[float]:
        """Count a batch, then normalise it."""
        self._count(rewards_N)
        return _scaled(rewards_N, self.state.mean, self.std)

    @property
    def std(self) -> float:
        """The standard deviation of all that was counted; 0 before anything was."""
        return math.sqrt(self.state.squares / self.state.weight) if self.state.weight else 0.0

    def _count(self, rewards_N: Sequence[float]) -> None:
        """Merge by Chan, Golub and LeVeque (1979), eq. 2.1: exact where sums of squares would cancel."""
        if not rewards_N:
            return
        kept = self.state.weight * 0.5 ** (len(rewards_N) / self.half_life)
        squares = self.state.squares * (kept / self.state.weight) if self.state.weight else 0.0
        mean = sum(rewards_N) / len(rewards_N)
        apart, weight = mean - self.state.mean, kept + len(rewards_N)
        self.state = RunningState(
            weight=weight,
            mean=self.state.mean + apart * len(rewards_N) / weight,
            squares=squares
            + sum((reward - mean) ** 2 for reward in rewards_N)
            + apart**2 * kept * len(rewards_N) / weight,
        )


def _scaled(rewards_N: Sequence[float], mean: float, std: float) -> list[float]:
    if std <= ROUNDING * abs(mean):
        return [0.0] * len(rewards_N)
    return [(reward - mean) / std for reward in rewards_N]
