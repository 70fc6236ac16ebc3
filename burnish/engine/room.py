"""Where lanes keep what was computed of them: branches that grow, and kept ones that later lanes begin from.

A lane begins on the longest beginning that a kept branch or a prompt under way has in common with it. Kept branches
go, the one that was of use longest ago first, as soon as the room is wanted.
"""

from collections.abc import Sequence
from typing import NamedTuple

from burnish.engine.prefixes import Prefixes, num_common
from burnish.engine.rows import Lane
from burnish.engine.steps import Steps, Work

EXACT_CHUNK = 64
_WORTH_WAITING = 32  # tokens in common with a prompt that is being computed, to wait for it


class _Beginning(NamedTuple):
    """The first `length` tokens of a branch, and how many it will offer once all of it is computed."""

    branch: int
    length: int
    promised: int


class Room:
    """Opens and closes the branches of lanes. With `exact`, only whole chunks of prompts are used again."""

    def __init__(self, steps: Steps, *, exact: bool) -> None:
        self._steps, self._exact = steps, exact
        self._kept: dict[str | None, Prefixes] = {}

    def fits(self, work: Sequence[Work]) -> bool:
        """Whether these can be fed, if need be after letting go of kept branches."""
        while not self._steps.fits(work):
            if not self._let_go():
                return False
        return True

    def open(self, lane: Lane, prompts: Sequence[Lane], epoch: int) -> bool:
        """Open a lane's branch on the longest beginning there is; not if a prompt will soon offer a longer one."""
        beginnings = self._beginnings(lane, prompts)
        best = max(beginnings, key=lambda b: b.length, default=None)
        length = best.length if best else 0
        if any(b.promised >= length + _WORTH_WAITING for b in beginnings):
            return False
        parent = best.branch if best and length else None
        lane.branch = self._steps.open(parent, length, adapter=lane.adapter)
        lane.num_fed, lane.epoch = length, epoch
        return True

    def close(self, lane: Lane) -> None:
        """Drop what was computed of a lane."""
        if lane.branch is not None:
            self._steps.drop(lane.branch)
        lane.branch, lane.num_fed = None, 0

    def keep(self, lane: Lane, epoch: int) -> None:
        """Close a lane, but keep its branch to begin from: if it is of use, and of the weights as they are."""
        kept = self._kept.setdefault(lane.adapter, Prefixes())
        token_ids = lane.token_ids[: lane.num_fed]
        if lane.branch is None or lane.epoch != epoch or not kept.adds(token_ids):
            self.close(lane)
            return
        kept.add(lane.branch, token_ids)
        lane.branch, lane.num_fed = None, 0

    def forget(self) -> None:
        """Let go of all kept branches."""
        while self._let_go():
            pass

    def _let_go(self) -> bool:
        for prefixes in self._kept.values():
            branch = prefixes.pop()
            if branch is not None:
                self._steps.drop(branch)
                return True
        return False

    def _beginnings(self, lane: Lane, prompts: Sequence[Lane]) -> list[_Beginning]:
        if lane.is_measured:
            return []
        mine = tuple(lane.token_ids)
        found: list[_Beginning] = []
        kept = self._kept.get(lane.adapter)
        if kept is not None and (hit := kept.longest(mine)) is not None:
            found.append(_Beginning(hit.branch, self._of_use(lane, hit.length), 0))
        for other in prompts:
            if other.branch is not None and other is not lane and other.adapter == lane.adapter:
                common = num_common(mine, tuple(other.token_ids))
                length = self._of_use(lane, min(common, other.num_fed))
                found.append(_Beginning(other.branch, length, self._of_use(lane, common)))
        return found

    def _of_use(self, lane: Lane, num_common_tokens: int) -> int:
        """How many tokens in common need not be computed: never the last, since what follows it is wanted."""
        if self._exact:
            return min(num_common_tokens, lane.num_given - 1) // EXACT_CHUNK * EXACT_CHUNK
        return min(num_common_tokens, len(lane.token_ids) - 1)
