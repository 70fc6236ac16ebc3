"""Where sampling is aimed: from what replies to a task, or to tasks of its family, have shown, to a weight in (0, 1].

Each term lies in [0, 1] and has a weight in the recipe; the sum over them, by their weights, is what is worth knowing:

split    the chance that G new replies do not all score alike, success having the posterior Beta(1 + k, 1 + n - k) of k
         in n: 1 - B(1+k+G, 1+n-k) / B(1+k, 1+n-k) - B(1+k, 1+n-k+G) / B(1+k, 1+n-k). It is high where success is
         split *or* unknown, and falls as evidence comes that all succeed or all fail
low      1 - (1 + k) / (2 + n)
entropy  the replies' mean surprise, -log p a token, against the highest of any family or task; 1 where nothing is
         known
rare     1 - the share of the domain's failing replies that failed as the rarest fault here: a part of the verdict that
         was 0, or a limit that ended the episode
risk     the share of replies that did what the recipe calls risky: a part of the verdict that reached a bound

A task is known by its own prompt, else by the families (source, tags) that it is of, else not at all. Newer groups
count more: each takes `KEEP` of what was there, since the policy that an old one was of has gone.

Decision: a weight is a chance of being drawn, so what is trained on is not the tasks' own distribution, on purpose;
`uniform` keeps each task's chance above 0, and its estimate honest. Covered: tasks, the states that episodes begin in.
Not covered: states within an episode; critics; distance from the training data.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self, cast

from pydantic import Field, model_validator

from burnish.core.config import Strict
from burnish.core.types import Json, Task, Trajectory
from burnish.rollout.groups import Group, score_of

KEEP: Final = 0.7
HASH: Final = 16
"""So many characters of a prompt's hash are kept."""


class AimConfig(Strict):
    """How much each term counts; see the module's docstring."""

    split: float = Field(default=1.0, ge=0)
    low: float = Field(default=0.25, ge=0)
    entropy: float = Field(default=0.25, ge=0)
    rare: float = Field(default=0.25, ge=0)
    risk: float = Field(default=0.5, ge=0)
    risk_parts: dict[str, float] = {}
    """Parts of a verdict, and from what value on a reply was risky, for example `{ "process:penalty" = 0.5 }`."""
    uniform: float = Field(default=0.1, ge=0.01, lt=1)
    """No task is less likely to be drawn than this."""

    @model_validator(mode="after")
    def _something_is_weighed(self) -> Self:
        if "risk" in self.model_fields_set and not self.risk_parts:
            raise ValueError(
                "aim: risk does nothing without risk_parts, which name the parts of a verdict that say that a reply "
                'was risky, for example { "process:penalty" = 0.5 }; add them, or leave risk out'
            )
        if self.risk_parts and not self.risk:
            raise ValueError("aim: risk_parts are read by risk, and risk is 0; raise it, or leave risk_parts out")
        if not any(self.weights.values()):
            raise ValueError("aim: all terms weigh 0, so that every task would be drawn alike; leave aim out")
        return self

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each term."""
        of_risk = {"risk": self.risk} if self.risk_parts else {}
        return {"split": self.split, "low": self.low, "entropy": self.entropy, "rare": self.rare, **of_risk}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What one group has shown. `surprise` is its replies' sum; `faults` counts failing replies by fault."""

    domain: str
    prompt: str
    families: tuple[str, ...]
    num: int
    succeeded: float
    surprise: float
    faults: Mapping[str, int] = field(default_factory=dict[str, int])
    num_failed: int = 0
    num_risky: int = 0

    def to_json(self) -> Json:
        """Short, because the ledger keeps one a group."""
        return [
            self.domain, self.prompt, list(self.families), self.num, self.succeeded, self.surprise, dict(self.faults),
            self.num_failed, self.num_risky,
        ]  # fmt: skip

    @classmethod
    def from_json(cls, row: Json) -> Self:
        """The inverse of `to_json`."""
        domain, prompt, families, num, succeeded, surprise, faults, num_failed, num_risky = cast(
            tuple[str, str, list[str], int, float, float, dict[str, int], int, int], row
        )
        return cls(
            domain=domain, prompt=prompt, families=tuple(families), num=num, succeeded=succeeded, surprise=surprise,
            faults=faults, num_failed=num_failed, num_risky=num_risky,
        )  # fmt: skip


def shown(group: Group, task: Task, config: AimConfig) -> Shown | None:
    """What a group has shown; None if none of it was scored."""
    members = group.scored
    if not members:
        return None
    failed = [member for member in members if score_of(member) < 1]
    faults: dict[str, int] = {}
    for fault in (fault for member in failed for fault in _faults(member, config)):
        faults[fault] = faults.get(fault, 0) + 1
    return Shown(
        domain=group.source_name, prompt=task.prompt_hash[:HASH], families=_families(task), num=len(members),
        succeeded=sum(score_of(member) for member in members), surprise=sum(_surprise(member) for member in members),
        faults=faults, num_failed=len(failed), num_risky=sum(_is_risky(member, config) for member in members),
    )  # fmt: skip


class Past(NamedTuple):
    """What newer and, less and less, older replies have shown. Counts are weighed, and so no whole numbers."""

    num: float = 0.0
    succeeded: float = 0.0
    surprise: float = 0.0
    num_failed: float = 0.0
    num_risky: float = 0.0
    faults: Mapping[str, float] = {}

    def after(self, new: Shown) -> "Past":
        """With a newer group."""
        faults = {name: KEEP * self.faults.get(name, 0.0) + new.faults.get(name, 0) for name in
                  {**self.faults, **new.faults}}  # fmt: skip
        return Past(
            KEEP * self.num + new.num, KEEP * self.succeeded + new.succeeded, KEEP * self.surprise + new.surprise,
            KEEP * self.num_failed + new.num_failed, KEEP * self.num_risky + new.num_risky, faults,
        )  # fmt: skip


NOTHING: Final = Past()


class Aim:
    """What is known of each task and family, and the weights that follow."""

    def __init__(self, config: AimConfig, group_size: int) -> None:
        self._config, self._group_size = config, group_size
        self._known: dict[tuple[str, str], Past] = {}
        """By domain, and prompt or family; the family "" is the domain as a whole."""
        self._most_surprise = 0.0

    def learn(self, groups: Iterable[Shown]) -> None:
        """Hear of newer groups."""
        for group in groups:
            for key in ("", group.prompt, *group.families):
                known = self._known.get((group.domain, key), NOTHING)
                self._known[group.domain, key] = known.after(group)
        self._most_surprise = max((past.surprise / past.num for past in self._known.values()), default=0.0)

    def past(self, domain: str, task: Task) -> Past:
        """What is known of a task: of its prompt, else of the family that most is known of."""
        own = self._known.get((domain, task.prompt_hash[:HASH]))
        if own is not None:
            return own
        of_families = [self._known.get((domain, family), NOTHING) for family in _families(task)]
        return max(of_families, key=lambda past: past.num, default=NOTHING)

    def weight(self, domain: str, task: Task) -> float:
        """How likely the task is let in where its turn has come."""
        terms, weights = self.terms(domain, task), self._config.weights
        worth = sum(weights[name] * terms[name] for name in weights) / sum(weights.values())
        return self._config.uniform + (1 - self._config.uniform) * worth

    def terms(self, domain: str, task: Task) -> dict[str, float]:
        """Each term by its name."""
        past = self.past(domain, task)
        return {
            "split": split(past.succeeded, past.num, self._group_size),
            "low": 1 - (1 + past.succeeded) / (2 + past.num),
            "entropy": past.surprise / past.num / self._most_surprise if past.num and self._most_surprise else 1.0,
            "rare": rarity(past, self._known.get((domain, ""), NOTHING)),
            "risk": past.num_risky / past.num if past.num else 0.0,
        }


def split(succeeded: float, num: float, group_size: int) -> float:
    """The chance that so many new replies do not all score alike; at least two are looked at."""
    yes, no, size = 1 + succeeded, 1 + num - succeeded, max(2, group_size)
    alike = math.exp(_log_beta(yes + size, no) - _log_beta(yes, no))
    alike += math.exp(_log_beta(yes, no + size) - _log_beta(yes, no))
    return max(0.0, 1 - alike)


def rarity(past: Past, domain: Past) -> float:
    """How rare the rarest fault here is among the failing replies of the whole domain; 0 where there was none."""
    shares = [domain.faults[name] / domain.num_failed for name, num in past.faults.items() if num > 0]
    return max((1 - min(1.0, share) for share in shares), default=0.0)


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def _families(task: Task) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, (task.source, *task.tags))))


def _surprise(member: Trajectory) -> float:
    return -sum(member.logprobs) / max(1, member.num_sampled)  # given tokens have a log-probability of 0.0


def _faults(member: Trajectory, config: AimConfig) -> list[str]:
    assert member.verdict is not None
    parts = [name for name, value in member.verdict.parts.items() if value == 0 and name not in config.risk_parts]
    return parts if member.ended_by in ("", "done") else [*parts, f"ended by {member.ended_by}"]


def _is_risky(member: Trajectory, config: AimConfig) -> bool:
    assert member.verdict is not None
    parts = member.verdict.parts
    return any(parts.get(name, -math.inf) >= bound for name, bound in config.risk_parts.items())
