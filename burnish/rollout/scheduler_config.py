"""The options of the scheduler, one model for recipes and simulated clusters. docs/scheduling.md explains each."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Literal, NamedTuple, Self

from pydantic import Field, model_validator

from burnish.core.config import Strict

BatchOrder = Literal["admission", "due", "ready"]
Overdue = Literal["wait", "mask", "restart", "drop"]


class DomainRules(Strict):
    """What one domain may take. None is no limit."""

    max_in_flight: int | None = Field(default=None, ge=1)
    """Members that are sampled or judged at once."""
    token_budget: int | None = Field(default=None, ge=1)
    """Sampled tokens over the whole stage."""
    sandbox_budget_s: float | None = Field(default=None, gt=0)
    """Seconds of verification over the whole stage."""
    level: int | None = Field(default=None, ge=0)
    """The level of its prompts; None is by predicted cost."""
    deadline_s: float | None = Field(default=None, gt=0)
    """So long after a prompt was drawn, its group trains with the members that have a score, or ends."""


class GroupRules(Strict):
    """What the groups of one domain are, where they are not as all others. None is as all others."""

    group_size: int | None = Field(default=None, ge=1)
    max_staleness: int | None = Field(default=None, ge=0)
    """At most that of all; a group that is older ends as `stale`."""
    needs_signal: bool | None = None


class Grouping(NamedTuple):
    """The rules for the groups of a domain, resolved."""

    group_size: int
    num_started: int
    """Members that a group begins with."""
    num_needed: int
    """Scored members without which a group cannot train."""
    max_staleness: int
    needs_signal: bool


class ConcurrencyRules(Strict):
    """How many members are sampled at once: up while nothing waits, down when memory or verdicts run short."""

    most: int = Field(default=256, ge=1)
    least: int = Field(default=1, ge=1)
    kv_high: float = Field(default=0.95, gt=0, le=1)
    kv_low: float = Field(default=0.85, gt=0, le=1)
    most_waiting: int = Field(default=0, ge=0)
    """Members that may wait inside the engines."""
    most_verdicts_a_sandbox: float = Field(default=8.0, gt=0)
    """Replies that may wait for each sandbox."""
    every_s: float = Field(default=2.0, gt=0)
    growth: float = Field(default=0.1, gt=0)
    """Up by this share of `most` at a time."""
    backoff: float = Field(default=0.8, gt=0, lt=1)
    """Down by this factor at a time."""

    @model_validator(mode="after")
    def _bounds_fit(self) -> Self:
        if self.least > self.most:
            raise ValueError(f"least ({self.least}) is above most ({self.most})")
        if self.kv_low > self.kv_high:
            raise ValueError(f"kv_low ({self.kv_low}) is above kv_high ({self.kv_high})")
        return self


class SchedulerConfig(Strict):
    """See docs/scheduling.md."""

    batch_groups: int = Field(ge=1)
    group_size: int = Field(ge=1)
    num_batches: int | None = Field(default=None, ge=1)
    """So that nothing is sampled that no step will train on; None is without end."""
    max_staleness: int = Field(default=0, ge=0)
    """How many versions a trained token may lag behind the weights that it trains; 0 is synchronous."""
    batch_order: BatchOrder = "admission"
    overdue: Overdue = "wait"
    """A group that would be too old for the next batch: wait for it, keep it out of the loss as far as it is too old,
    sample it anew, or drop it."""
    on_weights: Literal["continue", "finish"] = "continue"
    """When new weights are there: rollouts in flight go on with them, or end with the old ones first."""
    oversample: float = Field(default=0.0, ge=0, le=4)
    """Begin that share of groups more than a batch needs; what is not ready in time is `overdue`."""
    extra_members: int = Field(default=0, ge=0)
    """Begin that many members more than `group_size`; when enough are scored, the others are cut."""
    lookahead: int = Field(default=0, ge=0)
    """Prompts to choose from by priority, beyond those that can begin at once."""
    needs_signal: bool = True
    """Groups whose members scored alike do not train and are replaced."""
    max_draws_factor: float = Field(default=2.0, ge=1)
    """A batch is drawn from at most that many times its groups; then it is short."""
    barren_after: int = Field(default=32, ge=1)
    """Groups in a row without signal after which a domain is reported."""
    num_retries: int = Field(default=1, ge=0)
    """New attempts at a member whose verdict timed out or whose machinery failed."""
    min_members: int | None = Field(default=None, ge=1)
    """Scored members that a group needs; None is 2 (1 without `needs_signal`), `group_size` is to fail fast."""
    priority: str | None = None
    """A module that defines `priority(prospect) -> float`; None is burnish.rollout.priority."""
    ageing_s: float = Field(default=60.0, gt=0)
    """Waiting for so long doubles a prompt's priority."""
    level_bounds_s: list[float] = []
    """A prompt predicted to take less than the first bound is of level 0, less than the second of level 1, ..."""
    level_delay_s: float = Field(default=600.0, ge=0)
    """How long a prompt lets those of the level before it pass."""
    concurrency: ConcurrencyRules = ConcurrencyRules()
    domains: dict[str, DomainRules] = {}
    groups: dict[str, GroupRules] = {}
    """By domain; in stage `rl` they follow from `[tasks.rl]`."""

    def grouping(self, domain: str) -> Grouping:
        """What the groups of a domain are."""
        own = self.groups.get(domain, _AS_ALL)
        needs_signal = self.needs_signal if own.needs_signal is None else own.needs_signal
        size = own.group_size or self.group_size
        return Grouping(
            group_size=size,
            num_started=size + self.extra_members,
            num_needed=self.min_members or min(size, 2 if needs_signal else 1),
            max_staleness=self.max_staleness if own.max_staleness is None else own.max_staleness,
            needs_signal=needs_signal,
        )

    @model_validator(mode="after")
    def _options_fit(self) -> Self:
        for is_wrong, fault in self._faults():
            if is_wrong:
                raise ValueError(fault)
        return self

    def _faults(self) -> Iterator[tuple[bool, str]]:
        for domain in ("", *self.groups):
            yield from self._faults_of_groups(self.grouping(domain), f"groups of {domain!r}: " if domain else "")
        yield (
            any(low >= high for low, high in pairwise(self.level_bounds_s)),
            f"level_bounds_s must rise; got {self.level_bounds_s}",
        )
        yield (
            self.oversample > 0 and self.overdue == "wait",
            "oversample begins groups that are not waited for; say by overdue what becomes of them",
        )
        yield (
            self.batch_order == "admission" and self.overdue != "wait",
            f"batch_order 'admission' waits for every group, so overdue = {self.overdue!r} would do nothing; "
            "choose batch_order 'due' or 'ready'",
        )
        yield (
            self.batch_order == "ready" and self.overdue == "wait",
            "batch_order 'ready' lets later groups pass, so that an early one could grow too old; "
            "choose batch_order 'due', or another overdue",
        )

    def _faults_of_groups(self, of: Grouping, whose: str) -> Iterator[tuple[bool, str]]:
        yield (
            self.min_members is not None and self.min_members > of.group_size,
            f"{whose}min_members ({self.min_members}) is above group_size ({of.group_size}); lower it",
        )
        yield (
            of.needs_signal and of.num_needed < 2,
            f"{whose}one member has nothing to be compared with; set group_size and min_members to 2, or needs_signal "
            "= false",
        )
        yield (
            of.max_staleness > self.max_staleness,
            f"{whose}max_staleness ({of.max_staleness}) is above that of all ({self.max_staleness}); lower it",
        )


_AS_ALL = GroupRules()
