"""Which kept branch begins like a sequence: the longest common prefix; the least recently used goes first.

Token ids are indexed by the hash of all up to each 16th, so that a look-up costs one hash for 16 tokens; what is found
is compared token by token. Prefixes shorter than 16 are not found: they are cheaper to compute than to look after.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

_STRIDE = 16


class Prefix(NamedTuple):
    """The first `length` tokens of a branch."""

    branch: int
    length: int


class Prefixes:
    """Branches that nothing grows, by what they hold."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[int, ...]] = {}
        self._sequences: set[tuple[int, ...]] = set()
        self._holders: dict[int, dict[int, None]] = {}

    def __len__(self) -> int:
        return len(self._held)

    def add(self, branch: int, token_ids: Sequence[int]) -> None:
        """Keep a branch."""
        self._held[branch] = tuple(token_ids)
        self._sequences.add(self._held[branch])
        for key in _keys(self._held[branch]):
            self._holders.setdefault(key, {})[branch] = None

    def adds(self, token_ids: Sequence[int]) -> bool:
        """Whether more would be found if these were kept: they are long enough, and not kept or found already."""
        if len(token_ids) < _STRIDE or tuple(token_ids) in self._sequences:
            return False
        found = self.longest(token_ids)
        return found is None or found.length < len(token_ids)

    def longest(self, token_ids: Sequence[int]) -> Prefix | None:
        """Find the branch with which a sequence has most in common, and note that it was of use."""
        found = None
        for key in _keys(tuple(token_ids)):
            if key not in self._holders:
                break
            found = next(reversed(self._holders[key]))
        if found is None:
            return None
        self._held[found] = self._held.pop(found)
        return Prefix(found, num_common(self._held[found], tuple(token_ids)))

    def pop(self) -> int | None:
        """Let go of the branch that was not of use for longest; None if there is none."""
        if not self._held:
            return None
        branch = next(iter(self._held))
        sequence = self._held.pop(branch)
        self._sequences.discard(sequence)
        for key in _keys(sequence):
            del self._holders[key][branch]
            if not self._holders[key]:
                del self._holders[key]
        return branch


def num_common(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    """How many tokens two sequences begin with alike."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if a[low:middle] == b[low:middle] else (low, middle - 1)
    return low


def _keys(token_ids: tuple[int, ...]) -> Iterator[int]:
    key = 0
    for start, stop in pairwise(range(0, len(token_ids) + 1, _STRIDE)):
        key = hash((key, token_ids[start:stop]))
        yield key
