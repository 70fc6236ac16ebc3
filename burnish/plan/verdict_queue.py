"""Verdicts on a virtual clock: answers that wait for a sandbox, as `rollout/verification` has them wait.

An answer that equals a sibling's which waits or is being judged is joined to it and takes no sandbox of its own; where
the domain keeps verdicts, one that was judged before is known at once. Not covered: a verdict that nobody waits for any
more is judged to its end, where the real one is stopped.
"""

from collections import deque
from dataclasses import dataclass

from burnish.plan.world import Fate
from burnish.rollout.scheduler_types import Ticket


@dataclass(eq=False, slots=True)
class Work:
    """An answer to judge, and who waits for it."""

    group_id: str
    fate: Fate
    tickets: list[Ticket]
    is_repeated: bool
    """Whether an equal answer was judged before: another order of work might have spared it."""


class VerdictQueue:
    """See the module's docstring."""

    def __init__(self, num_sandboxes: int) -> None:
        self._num_free = num_sandboxes
        self._waiting: deque[Work] = deque()
        self._work_of: dict[Ticket, Work] = {}
        self._shared: dict[str, dict[int, Work]] = {}
        """Of each group, the answers that wait or are being judged."""
        self._known: dict[str, set[int]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def ask(self, ticket: Ticket, fate: Fate, *, keeps_verdicts: bool) -> bool:
        """Have an answer judged; whether its verdict is known already."""
        group_id, answer = ticket.group_id, fate.answer
        is_repeated = answer is not None and answer in self._known.get(group_id, ())
        if is_repeated and keeps_verdicts:
            return True
        work = None if answer is None else self._shared.get(group_id, {}).get(answer)
        if work is None:
            work = Work(group_id, fate, [], is_repeated)
            self._waiting.append(work)
            if answer is not None:
                self._shared.setdefault(group_id, {})[answer] = work
        work.tickets.append(ticket)
        self._work_of[ticket] = work
        return False

    def cut(self, ticket: Ticket) -> None:
        """That verdict is not waited for any more; no effect if it was not."""
        if (work := self._work_of.pop(ticket, None)) is not None:
            work.tickets.remove(ticket)

    def start(self) -> list[Work]:
        """What free sandboxes begin now; answers that nobody waits for are left out."""
        begun: list[Work] = []
        while self._waiting and self._num_free:
            work = self._waiting.popleft()
            if not work.tickets:
                self._unshare(work)
                continue
            self._num_free -= 1
            begun.append(work)
        return begun

    def end(self, work: Work) -> list[Ticket]:
        """An answer was judged: its sandbox is free; returns who waited."""
        self._num_free += 1
        self._unshare(work)
        if work.fate.answer is not None and work.tickets:
            self._known.setdefault(work.group_id, set()).add(work.fate.answer)
        for ticket in work.tickets:
            del self._work_of[ticket]
        return work.tickets

    def forget(self, group_id: str) -> None:
        """The group has ended."""
        self._shared.pop(group_id, None)
        self._known.pop(group_id, None)

    def _unshare(self, work: Work) -> None:
        shared = self._shared.get(work.group_id, {})
        if work.fate.answer is not None and shared.get(work.fate.answer) is work:
            del shared[work.fate.answer]
