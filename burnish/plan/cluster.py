"""A cluster and its work, as a TOML file describes them. docs/simulator.md explains each key."""

from itertools import chain
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from burnish.core.config import Strict, read_toml, validate
from burnish.plan.distributions import Distribution, LogNormal
from burnish.rollout.scheduler_config import SchedulerConfig


class Engines(Strict):
    """Engine replicas, all alike. A token takes `token_s + (n - 1) × token_s_per_member` while n members run."""

    num: int = Field(ge=1)
    slots: int = Field(ge=1)
    """Members that one engine samples at once."""
    token_s: float = Field(gt=0)
    token_s_per_member: float = Field(default=0.0, ge=0)
    kv_tokens: int | None = Field(default=None, ge=1)
    """Tokens whose keys and values one engine holds; None is enough for all."""
    load_weights_s: float = Field(default=0.0, ge=0)
    """All engines stand still for so long when new weights come."""
    accelerators: int = Field(default=1, ge=1)
    """How many one engine needs, for comparing splits."""

    def token_time_s(self, num_members: int) -> float:
        """Seconds a token while so many run."""
        return self.token_s + (num_members - 1) * self.token_s_per_member

    @property
    def best_rate(self) -> float:
        """The most tokens a second that all engines can sample together."""
        return self.num * max(n / self.token_time_s(n) for n in range(1, self.slots + 1))


class Learner(Strict):
    """A step takes `step_s` and `token_s ÷ num` a trained token."""

    num: int = Field(default=1, ge=1)
    step_s: float = Field(default=0.0, ge=0)
    token_s: float = Field(gt=0)
    shares_engines: bool = False
    """One process samples and trains in turn: all engines stand still while a step is made."""


class Answer(Strict):
    """What judging an answer takes and comes to: a score, or why there is none."""

    verify_s: float = Field(ge=0)
    score: float | None = None
    failure: Literal["unscorable", "timeout", "infrastructure_error"] | None = None

    @model_validator(mode="after")
    def _comes_to_one(self) -> Self:
        if (self.score is None) == (self.failure is None):
            raise ValueError("an answer has either a score or a failure; give one of the two")
        return self


class MeasuredAttempt(NamedTuple):
    """An attempt at a member as a run had it."""

    tokens: int
    answer: int
    """Which of its group's answers it gave."""


class MeasuredGroup(Strict):
    """A group as a run had it: what belongs together stays together, above all equal answers, judged once.

    Of each member all attempts, in order; after the last one, a retry is like that of any member of the group.
    """

    answers: list[Answer] = Field(min_length=1)
    members: list[Annotated[list[MeasuredAttempt], Field(min_length=1)]] = Field(min_length=1)

    @model_validator(mode="after")
    def _answers_exist(self) -> Self:
        for attempt in chain.from_iterable(self.members):
            if not 0 <= attempt.answer < len(self.answers):
                raise ValueError(f"a member gave answer {attempt.answer}, and there are {len(self.answers)} answers")
        return self


class DomainLoad(Strict):
    """A domain's tasks: how long replies are, how long verdicts take, how often members succeed and fail.

    All by distributions of their own, or `groups` that a run had, whole.
    """

    name: str
    copies: int = Field(default=1, ge=1)
    """So many domains like this one: name-0, name-1, ..."""
    weight: float = Field(default=1.0, gt=0)
    lengths: Distribution | None = None
    groups: list[MeasuredGroup] | None = Field(default=None, min_length=1)
    keeps_verdicts: bool = False
    """With `groups`: an answer that was judged before in its group is not judged again."""
    max_tokens: int = Field(ge=1)
    """Longer replies are cut off."""
    alike: float = Field(default=0.5, ge=0, le=1)
    """How far the lengths of a group's members correlate."""
    verify_s: Distribution = LogNormal(median=0.01)
    pass_rates: list[Annotated[float, Field(ge=0, le=1)]] = Field(default=[0.25, 0.5, 0.75], min_length=1)
    """Shares of members that score 1; each prompt has one of them, all alike in how often. 0 and 1 give no signal."""
    lost_share: float = Field(default=0.0, ge=0, lt=1)
    """Attempts that die while they are sampled."""
    undecided_share: float = Field(default=0.0, ge=0, lt=1)
    """Verdicts that are infrastructure errors."""

    @model_validator(mode="after")
    def _says_once(self) -> Self:
        if (self.lengths is None) == (self.groups is None):
            raise ValueError("either lengths (with verify_s, pass_rates and so on) or groups; give one of the two")
        drawn = {"verify_s", "alike", "pass_rates", "undecided_share"}
        if self.groups is not None and (said := sorted(drawn & self.model_fields_set)):
            raise ValueError(f"{' and '.join(said)} would do nothing beside groups, which say that; leave that out")
        if self.groups is None and self.keeps_verdicts:
            raise ValueError("keeps_verdicts is of equal answers, which only groups have; leave it out")
        return self


class Cluster(Strict):
    """The whole file."""

    seed: int = Field(default=1, ge=0)
    hours: float | None = Field(default=None, gt=0)
    """Stop then; None is after the scheduler's `num_batches`."""
    engines: Engines
    learner: Learner
    num_sandboxes: int = Field(ge=1)
    domains: list[DomainLoad] = Field(min_length=1)
    scheduler: SchedulerConfig

    @model_validator(mode="after")
    def _ends(self) -> Self:
        if self.hours is None and self.scheduler.num_batches is None:
            raise ValueError("without an end: set hours, or scheduler.num_batches")
        names = [domain.name for domain in self.domains]
        if len(set(names)) < len(names):
            raise ValueError(f"two domains have one name: {sorted(names)}")
        return self


def read_cluster(path: Path) -> Cluster:
    """Read and check a file; `ConfigError` says what is wrong where."""
    return validate(Cluster, read_toml(path), str(path))
