"""What a scheduler waits for, in data and in one sentence: a stall has a name. And the notices it gives."""

from collections.abc import Mapping, Sequence

from burnish.rollout.scheduler_config import DomainRules
from burnish.rollout.scheduler_groups import OPEN, Account, Group
from burnish.rollout.scheduler_types import Longest, Phase, Status, WaitsFor

_PHASE_OF: dict[WaitsFor, Phase] = {"samples": "sampling", "verdicts": "judging", "slots": "pending"}


def status(
    groups: Sequence[Group], num_in: Mapping[Phase, int], *, now_s: float, moved_s: float, version: int, made: int,
    engine_version: int, num_backlog: int, num_held_back: int, num_ready: int, limit: int, is_done: bool,
) -> Status:  # fmt: skip
    """Sum up; looks at every outstanding group."""
    waits_for = _waits_for(
        num_in, is_learning=made < version, is_done=is_done, is_loading=engine_version < made, num_backlog=num_backlog,
        num_held_back=num_held_back,
    )  # fmt: skip
    longest = _longest(groups, _PHASE_OF.get(waits_for), now_s)
    waiting_s = max(0.0, now_s - moved_s) if moved_s > float("-inf") else 0.0
    return Status(
        version=version, engine_version=engine_version, waits_for=waits_for, waiting_s=waiting_s,
        num_backlog=num_backlog + num_held_back, num_outstanding=len(groups), num_ready=num_ready,
        num_pending=num_in["pending"] + num_in["paused"], num_sampling=num_in["sampling"],
        num_judging=num_in["judging"], limit=limit, longest=longest,
        text=_sentence(waits_for, waiting_s, num_in, longest),
    )  # fmt: skip


def _waits_for(
    num_in: Mapping[Phase, int], *, is_learning: bool, is_done: bool, is_loading: bool, num_backlog: int,
    num_held_back: int,
) -> WaitsFor:  # fmt: skip
    if is_done:
        return "nothing"
    if num_in["sampling"]:
        return "samples"
    if num_in["judging"]:
        return "verdicts"
    if is_learning:
        return "learner"
    if is_loading:
        return "weights"
    if num_in["pending"] or num_in["paused"]:
        return "slots"
    if num_held_back:
        return "budgets"
    return "slots" if num_backlog else "prompts"


def _longest(groups: Sequence[Group], phase: Phase | None, now_s: float) -> Longest | None:
    found: Longest | None = None
    for group in groups:
        for index, member in enumerate(group.members):
            if member.phase in OPEN and phase in (None, member.phase):
                waiting_s = max(0.0, now_s - member.since_s)
                if found is None or waiting_s > found.waiting_s:
                    found = Longest(group.ticket(index), group.prompt.domain, member.phase, waiting_s)
    return found


def _sentence(waits_for: WaitsFor, waiting_s: float, num_in: Mapping[Phase, int], longest: Longest | None) -> str:
    numbers = f"{num_in['sampling']} being sampled, {num_in['judging']} being judged, {num_in['pending']} pending"
    text = f"waiting {waiting_s:.0f} s for {waits_for}: {numbers}"
    if longest is None:
        return text
    ticket = longest.ticket
    return (
        f"{text}; oldest: group {ticket.group_id} ({longest.domain}), member {ticket.member}, "
        f"{longest.phase} for {longest.waiting_s:.0f} s"
    )


def barren_notice(domain: str, num_groups: int, scores: Sequence[float]) -> str:
    """A domain gives no signal."""
    return (
        f"domain {domain!r}: {num_groups} groups in a row without signal (all members of each scored alike, those of "
        f"the last {scores[0] if scores else 0:.2f}); nothing can be learned from that. Make its tasks easier (harder, "
        "if all score 1), lower its weight, or raise group_size"
    )


def budget_notice(domain: str, account: Account, rules: DomainRules) -> str:
    """A domain's budget is spent."""
    return (
        f"domain {domain!r} has spent its budget: {account.tokens} tokens (budget {rules.token_budget}), "
        f"{account.sandbox_s:.0f} sandbox seconds (budget {rules.sandbox_budget_s}); no more of its prompts begin. "
        f"Raise domains.{domain}.token_budget or sandbox_budget_s, or lower its weight"
    )
