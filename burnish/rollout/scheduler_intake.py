"""Prompts on their way in: ranked when offered, held back while their domain has no room, refused when it is too late.

A domain has no room while it has admitted as many groups as its members in flight can keep busy, or while what
is set aside for its groups would exceed its budget. What is held back tries again when a group of the domain
has come to its end.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

from burnish.rollout import watch
from burnish.rollout.lengths import LogNormal, predict
from burnish.rollout.priority import Prospect
from burnish.rollout.scheduler_backlog import Backlog, Waiting, rank_key
from burnish.rollout.scheduler_config import DomainRules, Grouping, SchedulerConfig
from burnish.rollout.scheduler_groups import Account, prompt_from_json
from burnish.rollout.scheduler_types import Prompt, Why

Priority = Callable[[Prospect], float]
_NO_RULES = DomainRules()
NOTHING_KNOWN: Mapping[str, Any] = {}
BEFORE_ALL = -1e18
"""A key below all ranks; finite, because state is JSON."""


class Refused(NamedTuple):
    """A prompt that will never begin, and what the user should read of it."""

    prompt: Prompt
    why: Why
    notice: str | None


class Intake:
    """The backlog and the accounts of the domains."""

    def __init__(self, config: SchedulerConfig, priority: Priority, accounts: Mapping[str, Any]) -> None:
        self._config, self._priority = config, priority
        self._backlog = Backlog()
        self._held_back: dict[str, list[Waiting]] = {}
        self._groupings: dict[str, Grouping] = {}
        self.accounts = {domain: Account.from_json(account) for domain, account in accounts.items()}
        self.num_offered = self.num_held_back = 0

    @property
    def num_waiting(self) -> int:
        """Prompts that could be admitted."""
        return len(self._backlog)

    def group_ids(self) -> list[str]:
        """All that wait or are held back."""
        return [waiting.prompt.group_id for waiting in [*self._backlog, *self._all_held_back()]]

    def account(self, domain: str) -> Account:
        """A domain's account; its first is opened."""
        if (account := self.accounts.get(domain)) is None:
            account = self.accounts[domain] = Account()
        return account

    def rules(self, domain: str) -> DomainRules:
        """What a domain may take."""
        return self._config.domains.get(domain, _NO_RULES)

    def is_full(self, domain: str) -> bool:
        """Whether no more of its members may be in flight."""
        rules = self._config.domains.get(domain)
        return rules is not None and self.account(domain).is_full(rules)

    def grouping(self, domain: str) -> Grouping:
        """What the groups of a domain are."""
        if (grouping := self._groupings.get(domain)) is None:
            grouping = self._groupings[domain] = self._config.grouping(domain)
        return grouping

    def predicted(self, prompt: Prompt) -> float:
        """Tokens of a member of a group that has not begun."""
        return min(_length(self.account(prompt.domain)).mean, prompt.max_tokens)

    def need(self, prompt: Prompt) -> tuple[int, float]:
        """Tokens and seconds to set aside for a whole group."""
        num_started = self._num_started(prompt.domain)
        return prompt.max_tokens * num_started, prompt.max_verify_s * num_started

    def can_pay(self, prompt: Prompt) -> bool:
        """Whether its domain can set that aside."""
        return self.account(prompt.domain).can_pay(self.rules(prompt.domain), *self.need(prompt))

    def offer(
        self, prompt: Prompt, now_s: float, *, version: int, expected_lag: float, goes_first: bool = False
    ) -> None:
        """Rank a prompt and let it wait."""
        prospect = self._prospect(prompt, version, expected_lag)
        ranked = rank_key(self._priority(prospect), prospect.level, now_s, self._config)
        key = BEFORE_ALL if goes_first else ranked
        latest_s = math.inf if prompt.deadline_s is None else prompt.deadline_s - prospect.predicted_s
        self.num_offered += 1
        self._backlog.push(Waiting(key, self.num_offered, prompt, prospect.level, latest_s))

    def next(self, now_s: float) -> Waiting | Refused | None:
        """The next prompt to admit or to refuse; those whose domains have no room are held back."""
        while (waiting := self._backlog.pop(now_s)) is not None:
            prompt = waiting.prompt
            if prompt.deadline_s is not None and prompt.deadline_s <= now_s:
                return Refused(prompt, "deadline", None)
            account, rules = self.account(prompt.domain), self.rules(prompt.domain)
            if not account.could_ever_pay(rules, *self.need(prompt)):
                return Refused(prompt, "budget", watch.budget_notice(prompt.domain, account, rules))
            if not account.has_enough(rules, self._num_started(prompt.domain)) and self.can_pay(prompt):
                return waiting
            self._held_back.setdefault(prompt.domain, []).append(waiting)
            self.num_held_back += 1
        return None

    def let_in(self, domain: str) -> None:
        """A group of the domain has come to its end: what was held back may try again."""
        for waiting in self._held_back.pop(domain, ()):
            self.num_held_back -= 1
            self._backlog.push(waiting)

    def _num_started(self, domain: str) -> int:
        """Members that a group of the domain begins with."""
        return self.grouping(domain).num_started

    def _prospect(self, prompt: Prompt, version: int, expected_lag: float) -> Prospect:
        account = self.account(prompt.domain)
        length = self.predicted(prompt)
        member_s = length * account.token_s.mean + account.verify_s.mean
        past = prompt.past_rewards
        mean = sum(past) / len(past) if past else 0.0
        return Prospect(
            domain=prompt.domain,
            level=self._level(prompt, member_s),
            num_past=len(past),
            past_variance=sum((reward - mean) ** 2 for reward in past) / len(past) if past else 0.0,
            versions_since=version - prompt.past_version,
            domain_variance=account.reward_variance.mean,
            expected_lag=expected_lag,
            predicted_tokens=length,
            predicted_s=member_s * self._num_started(prompt.domain),
        )

    def _level(self, prompt: Prompt, member_s: float) -> int:
        if prompt.level is not None:
            return prompt.level
        by_rule = self.rules(prompt.domain).level
        return sum(member_s >= bound for bound in self._config.level_bounds_s) if by_rule is None else by_rule

    def _all_held_back(self) -> list[Waiting]:
        return [waiting for several in self._held_back.values() for waiting in several]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "num_offered": self.num_offered,
            "backlog": [_to_json(waiting) for waiting in self._backlog],
            "held_back": [_to_json(waiting) for waiting in self._all_held_back()],
            "accounts": {domain: account.to_json() for domain, account in self.accounts.items()},
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what `to_json` gave."""
        self.num_offered = state["num_offered"]
        self.accounts = {domain: Account.from_json(account) for domain, account in state["accounts"].items()}
        for waiting in map(_from_json, state["backlog"]):
            self._backlog.push(waiting)
        for waiting in map(_from_json, state["held_back"]):
            self._held_back.setdefault(waiting.prompt.domain, []).append(waiting)
            self.num_held_back += 1


def _length(account: Account) -> LogNormal:
    return predict(account.log_lengths, account.log_variance_within, 0, 0.0)


def _to_json(waiting: Waiting) -> dict[str, Any]:
    latest_s = waiting.latest_start_s
    plain = {"prompt": asdict(waiting.prompt), "latest_start_s": latest_s if math.isfinite(latest_s) else None}
    return {**waiting._asdict(), **plain}


def _from_json(data: Mapping[str, Any]) -> Waiting:
    fields = dict(data)
    fields["prompt"] = prompt_from_json(data["prompt"])
    fields["latest_start_s"] = math.inf if data["latest_start_s"] is None else data["latest_start_s"]
    return Waiting(**fields)
