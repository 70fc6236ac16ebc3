"""What goes into the scheduler and what comes out of it: plain records, no behaviour.

A *version* here counts training steps: tokens of version v were sampled by the weights that step v starts from.
A driver whose policy moves by several updates a step keeps the translation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from burnish.core.types import VerdictKind

Why = Literal["no_signal", "failed", "stale", "deadline", "budget", "surplus"]
"""Why a group ends without training: members scored alike; too few members with a score; sampled too long ago;
later than its deadline; its domain has spent its budget; enough others were ready and this stage ends."""

Phase = Literal["pending", "sampling", "paused", "judging", "scored", "lost", "cut"]
WaitsFor = Literal["prompts", "slots", "samples", "verdicts", "weights", "learner", "budgets", "nothing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A group that could be sampled. `max_tokens` and `max_verify_s` bound one member: budgets reserve that much.

    `past_rewards` are the scores that the same prompt got earlier, `past_version` the version that got them.
    `level` 0 goes first; None is by the predicted cost. After `deadline_s` (on the driver's clock) it is worthless.
    """

    group_id: str
    domain: str
    max_tokens: int
    max_verify_s: float = 0.0
    past_rewards: Sequence[float] = ()
    past_version: int = 0
    level: int | None = None
    deadline_s: float | None = None


class Ticket(NamedTuple):
    """One attempt at one member of a group; a retried or restarted member gets another `attempt`."""

    group_id: str
    member: int
    attempt: int


class Start(NamedTuple):
    """Sample this member now; `resumes` means that its kept tokens are gone on with."""

    ticket: Ticket
    resumes: bool
    level: int


class Ended(NamedTuple):
    """A group that will not train, and why; each prompt ends once, so or in a batch."""

    group_id: str
    domain: str
    why: Why
    num_scored: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What the driver does now, in this order."""

    cut: tuple[Ticket, ...] = ()
    """Stop sampling or judging these, and forget them; later events of theirs are ignored."""
    pause: tuple[Ticket, ...] = ()
    """Stop sampling these, keep their tokens, and answer each with `paused`."""
    restarted: tuple[str, ...] = ()
    """What these groups have sampled so far is void; they wait to be sampled anew."""
    ended: tuple[Ended, ...] = ()
    load_weights: bool = False
    """The engines may load the weights that `weights_ready` told of; answer with `weights_loaded`."""
    start: tuple[Start, ...] = ()
    notices: tuple[str, ...] = ()
    """For the user to read."""


class BatchGroup(NamedTuple):
    """A group of a batch: the members that train, in order, and what became of the others."""

    group_id: str
    domain: str
    members: tuple[int, ...]
    num_lost: int
    num_cut: int
    oldest_version: int
    newest_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """What training step `version` trains on. It is short where no more groups may be drawn for it."""

    version: int
    groups: tuple[BatchGroup, ...]
    oldest_trainable_version: int
    """Tokens of older versions stay out of the loss; there are none unless `overdue = "mask"`."""
    is_short: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the driver measures. None is: not known, not limited by it."""

    num_slots: int | None = None
    """How many members the engines can sample at once."""
    num_waiting: int | None = None
    """Members that wait inside the engines."""
    kv_used: float | None = None
    """Share of the memory for keys and values that is taken."""
    num_waiting_verdicts: int | None = None
    num_sandboxes: int | None = None


class Longest(NamedTuple):
    """The member that has been in its phase for the longest time."""

    ticket: Ticket
    domain: str
    phase: Phase
    waiting_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Where everything stands, for a watchdog; `text` says it in one sentence."""

    version: int
    engine_version: int
    waits_for: WaitsFor
    waiting_s: float
    """How long ago anything moved."""
    num_backlog: int
    num_outstanding: int
    """Groups that were begun and have neither trained nor ended."""
    num_ready: int
    num_pending: int
    num_sampling: int
    num_judging: int
    limit: int
    """How many members may be sampled at once, by the adaptive rule."""
    longest: Longest | None
    text: str


class DomainStatus(NamedTuple):
    """One domain's account."""

    in_flight: int
    tokens: int
    sandbox_s: float
    num_groups: int
    num_without_signal: int


class Judged(NamedTuple):
    """A verdict as the scheduler needs it."""

    kind: VerdictKind
    score: float | None = None
    sandbox_s: float = 0.0
