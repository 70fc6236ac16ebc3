"""A reward that is made of named parts: the outcome, habits that are paid with it, format, and costs.

    R = outcome + gate(outcome) Σ w_i process_i + Σ v_k format_k - Σ c_j cost_j

`gate` is 1 where the outcome reaches the recipe's `gate`, else 0: process parts are paid to replies that solved the
task, and to no others. Step rewards that are summed without such a gate are collected instead of solving; gated, they
help (G-RA, https://arxiv.org/abs/2508.10548). The weights are capped, so that for parts in [0, 1]

* no process part changes what an unsolved reply is worth;
* all process parts together are worth at most half of an outcome;
* a reply whose outcome is 1 beats one whose outcome is 0 by at least 1/2, whatever their other parts.

A part that a verdict does not have is 0, but for the outcome, which must be there. One that is outside [0, 1] is an
error and never a reward.
Raw points (`Verdict.of_points`) are an outcome of their own scale, beside which no other part has a weight.
A part that no verdict of a step has, though one of them solved its task, is taken for a slip of the pen, and an error.
Not covered: parts of single steps (an episode's own credit).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Self

from pydantic import Field, model_validator

from burnish.core.config import Strict
from burnish.core.errors import ConfigError
from burnish.core.types import POINTS, Verdict

MOST_PROCESS: Final = 0.5
MOST_OTHERS: Final = 0.5
"""Of the weights of format and cost together."""
SCORE: Final = "score"
Weights = dict[str, float]


class RewardParts(Strict):
    """What a domain's reward is made of, as `reward = { ... }` of `[tasks.rl]`; the keys of tables are parts."""

    outcome: str = SCORE
    """`score` is the verdict's; else the part that says how far the task was solved, or `points`."""
    gate: float = Field(default=1.0, gt=0, le=1)
    """From which outcome on a reply counts as solved and its process parts are paid."""
    process: Weights = {}
    format: Weights = {}
    cost: Weights = {}

    @model_validator(mode="after")
    def _weights_fit(self) -> Self:
        for is_wrong, fault in self._faults():
            if is_wrong:
                raise ValueError(fault)
        return self

    def _faults(self) -> Iterator[tuple[bool, str]]:
        tables = {"process": self.process, "format": self.format, "cost": self.cost}
        names = [self.outcome, *(name for table in tables.values() for name in table)]
        twice = sorted({name for name in names if names.count(name) > 1})
        yield bool(twice), f"{', '.join(map(repr, twice))} would count twice; name each part once"
        for kind, table in tables.items():
            low = sorted(name for name, weight in table.items() if weight <= 0)
            yield bool(low), f"{kind}: weights are above 0; got {', '.join(low)} at or below it, leave those out"
        process, others = sum(self.process.values()), sum([*self.format.values(), *self.cost.values()])
        yield (
            process > MOST_PROCESS,
            f"process: the weights come to {process:g}, and more than {MOST_PROCESS} would let habits outweigh the "
            "outcome; lower them",
        )
        yield (
            others > MOST_OTHERS,
            f"format and cost: the weights come to {others:g}, and with more than {MOST_OTHERS} a failure could beat a "
            "solution; lower them",
        )
        yield (
            "gate" in self.model_fields_set and not self.process,
            "gate is of process parts, and there are none; leave gate out, or name process parts",
        )
        yield (
            self.outcome == POINTS and any(tables.values()),
            "weights of parts are shares of an outcome in [0, 1], and points are on a scale of their own; leave out "
            "outcome (the score is the points' place on their scale), or the other parts",
        )

    @property
    def names(self) -> list[str]:
        """All parts, the outcome first."""
        return [self.outcome, *self.process, *self.format, *self.cost]

    @property
    def most(self) -> float:
        """The largest reward; infinite for points."""
        return math.inf if self.outcome == POINTS else 1 + sum([*self.process.values(), *self.format.values()])

    @property
    def weights(self) -> Mapping[str, float]:
        """What each of `paid` counts in the reward."""
        costs = {name: -weight for name, weight in self.cost.items()}
        return {self.outcome: 1.0, **self.process, **self.format, **costs}

    def found(self, verdict: Verdict) -> Mapping[str, float]:
        """The parts as the verdict says them; `ConfigError` for a number that can have no weight."""
        return {name: self._value(name, verdict) for name in self.names}

    def paid(self, verdict: Verdict) -> Mapping[str, float]:
        """The parts as they are paid: those of process where the gate is open."""
        found = self.found(verdict)
        return found if self.is_solved(verdict) else {**found, **dict.fromkeys(self.process, 0.0)}

    def total(self, verdict: Verdict) -> float:
        """The reward."""
        paid = self.paid(verdict)
        return sum(weight * paid[name] for name, weight in self.weights.items())

    def check_names(self, verdicts: Sequence[Verdict]) -> None:
        """`ConfigError` for a part that none of these has, though one of them is a solution, which shows all parts."""
        known = {SCORE}.union(*(verdict.parts for verdict in verdicts))
        unknown = [name for name in self.names if name not in known]
        if unknown and any(map(self.is_solved, verdicts)):
            raise ConfigError(
                f"reward names {', '.join(map(repr, unknown))}, and verdicts have: {', '.join(sorted(known))}; name "
                "one of those, or leave it out"
            )

    def is_solved(self, verdict: Verdict) -> bool:
        """Whether the outcome reaches the gate."""
        return self._value(self.outcome, verdict) >= self.gate

    def process_share(self, verdict: Verdict) -> float:
        """How much of its process parts a reply has, paid or not, from 0 to 1."""
        found = self.found(verdict)
        return sum(weight * found[name] for name, weight in self.process.items()) / sum(self.process.values())

    def _value(self, name: str, verdict: Verdict) -> float:
        assert verdict.score is not None, "only scored replies have a reward"
        value = verdict.score if name == SCORE else verdict.parts.get(name)
        if value is None and name != self.outcome:
            return 0.0
        if value is None:
            raise ConfigError(
                f"reward.outcome is {name!r}, and a verdict has no such part, only "
                f"{', '.join(sorted(verdict.parts)) or 'a score'}; name one that every verdict has, or leave it out"
            )
        if not (math.isfinite(value) if name == POINTS else 0 <= value <= 1):
            raise ConfigError(
                f"part {name!r} of a verdict is {value!r}; parts of a reward lie in [0, 1]. Let the domain scale it, "
                "or leave it out of the reward"
            )
        return value
