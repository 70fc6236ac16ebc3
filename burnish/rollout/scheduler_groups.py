"""The scheduler's own records: a member, a group, and a domain's account, with their plain JSON.

They change while a group lives, and nothing outside the scheduler holds one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from burnish.rollout.lengths import Moments
from burnish.rollout.priority import UNKNOWN_VARIANCE
from burnish.rollout.scheduler_config import DomainRules
from burnish.rollout.scheduler_types import DomainStatus, Phase, Prompt, Ticket

OPEN: frozenset[Phase] = frozenset({"pending", "sampling", "paused", "judging"})
IN_FLIGHT: frozenset[Phase] = frozenset({"sampling", "judging"})


@dataclass(slots=True)
class Member:
    """One member of a group."""

    phase: Phase = "pending"
    attempt: int = 0
    num_retries: int = 0
    since_s: float = 0.0
    num_tokens: int = 0
    start_tokens: int = 0
    """How many were kept when it was started last."""
    queued_tokens: float = 0.0
    """Its predicted length when it was queued: the longest start first."""
    oldest: int | None = None
    newest: int | None = None
    score: float | None = None
    sandbox_s: float = 0.0

    def again(self, now_s: float) -> None:
        """Wait for a new attempt that knows nothing of the last."""
        self.phase, self.since_s, self.num_tokens, self.start_tokens = "pending", now_s, 0, 0
        self.sandbox_s = 0.0
        self.attempt += 1
        self.oldest = self.newest = self.score = None


@dataclass(slots=True)
class Group:
    """A prompt that was admitted. `version` is that of its oldest token; None before it begins."""

    prompt: Prompt
    number: int
    level: int
    members: list[Member]
    version: int | None = None
    predicted_tokens: float = 0.0
    num_open: int = 0
    num_scored: int = 0
    sum_of_logs: float = 0.0
    """Of the lengths of its finished members."""
    num_finished: int = 0
    ready_number: int | None = None
    num_restarts: int = 0

    @property
    def is_ready(self) -> bool:
        """Whether it is complete and may train."""
        return self.ready_number is not None

    @property
    def newest(self) -> int:
        """The newest version among the members that train."""
        return max(member.newest for member in self.members if member.phase == "scored" and member.newest is not None)

    def ticket(self, index: int) -> Ticket:
        """Its member's current attempt."""
        return Ticket(self.prompt.group_id, index, self.members[index].attempt)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`."""
        fields = dict(data)
        fields["prompt"] = prompt_from_json(data["prompt"])
        fields["members"] = [Member(**member) for member in data["members"]]
        return cls(**fields)


def prompt_from_json(data: Mapping[str, Any]) -> Prompt:
    """The inverse of `dataclasses.asdict`."""
    fields = dict(data)
    fields["past_rewards"] = tuple(data["past_rewards"])
    return Prompt(**fields)


@dataclass(slots=True)
class Account:
    """What a domain has taken, what is set aside for what it has begun, and what it has shown."""

    in_flight: int = 0
    num_unresolved: int = 0
    """Groups that were admitted and are not complete."""
    tokens: int = 0
    tokens_reserved: int = 0
    sandbox_s: float = 0.0
    sandbox_reserved_s: float = 0.0
    num_groups: int = 0
    num_without_signal: int = 0
    num_barren: int = 0
    """Groups in a row without signal."""
    log_lengths: Moments = field(default_factory=Moments)
    log_variance_within: Moments = field(default_factory=Moments)
    reward_variance: Moments = field(default_factory=lambda: Moments(weight=4.0, mean=UNKNOWN_VARIANCE))
    token_s: Moments = field(default_factory=lambda: Moments(weight=1.0, mean=0.02))
    """Seconds of sampling a token."""
    verify_s: Moments = field(default_factory=Moments)

    def is_full(self, rules: DomainRules) -> bool:
        """Whether no more of its members may be in flight."""
        return rules.max_in_flight is not None and self.in_flight >= rules.max_in_flight

    def has_enough(self, rules: DomainRules, group_size: int) -> bool:
        """Whether it has admitted as many groups as its members in flight can keep busy."""
        most = rules.max_in_flight
        return most is not None and self.num_unresolved > most // group_size + (most % group_size > 0)

    def could_ever_pay(self, rules: DomainRules, tokens: int, sandbox_s: float) -> bool:
        """Whether the budget would do if all that is set aside came back."""
        return _within(rules.token_budget, self.tokens + tokens) and _within(
            rules.sandbox_budget_s, self.sandbox_s + sandbox_s
        )

    def can_pay(self, rules: DomainRules, tokens: int, sandbox_s: float) -> bool:
        """Whether the budget does for that much more."""
        return _within(rules.token_budget, self.tokens + self.tokens_reserved + tokens) and _within(
            rules.sandbox_budget_s, self.sandbox_s + self.sandbox_reserved_s + sandbox_s
        )

    def reserve(self, tokens: int, sandbox_s: float) -> None:
        """Set aside (give back, where negative)."""
        self.tokens_reserved += tokens
        self.sandbox_reserved_s += sandbox_s

    def status(self) -> DomainStatus:
        """What is shown of it."""
        return DomainStatus(self.in_flight, self.tokens, self.sandbox_s, self.num_groups, self.num_without_signal)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`."""
        fields = dict(data)
        for name in ("log_lengths", "log_variance_within", "reward_variance", "token_s", "verify_s"):
            fields[name] = Moments(**data[name])
        return cls(**fields)


def settled(accounts: Mapping[str, Account], outstanding: Iterable[Group]) -> dict[str, dict[str, Any]]:
    """The accounts as plain values, without what the current attempts of outstanding groups took."""
    kept = {
        domain: replace(account, in_flight=0, num_unresolved=0, tokens_reserved=0, sandbox_reserved_s=0.0)
        for domain, account in accounts.items()
    }
    for group in outstanding:
        account = kept[group.prompt.domain]
        account.tokens -= sum(member.num_tokens for member in group.members)
        account.sandbox_s -= sum(member.sandbox_s for member in group.members)
    return {domain: account.to_json() for domain, account in kept.items()}


def _within(budget: float | None, amount: float) -> bool:
    return budget is None or amount <= budget
