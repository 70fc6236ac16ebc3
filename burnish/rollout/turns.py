"""Whose turn it is: stride scheduling, in which each source comes up as often as its weight says, evenly spread.

Waldspurger and Weihl, "Stride Scheduling" (MIT/LCS/TM-528, 1995), sections 2 and 3.1. A source's stride is 1 / weight;
the one with the least pass is next, and its pass goes on by its stride; of equals the first. Where weights change,
what remained of a stride is scaled with it, so that a source that was nearly due stays nearly due, however often
weights change; one that comes in waits a whole stride. A weight of 0 has no turn.
"""

from collections.abc import Sequence
from heapq import heapify, heapreplace


class Turns:
    """The passes of the sources. The passes of an unchanged list of weights are (n + 1) / weight."""

    def __init__(self, weights: Sequence[float]) -> None:
        self._weights = list(weights)
        self._start = [0.0] * len(weights)
        self._num = [0] * len(weights)
        self._heap = self._due()

    def next(self) -> int:
        """The source whose turn it is."""
        _, which = self._heap[0]
        self._num[which] += 1
        heapreplace(self._heap, (self._pass(which), which))
        return which

    def weigh(self, weights: Sequence[float]) -> None:
        """Go on with other weights."""
        assert any(weight > 0 for weight in weights), "some source has a turn"
        now = sum(self._num) / sum(self._weights)
        for which, weight in enumerate(weights):
            was = self._weights[which]
            if weight > 0:
                strides_left = (self._pass(which) - now) * was if was > 0 else 1.0
                self._start[which] = (strides_left - 1) / weight
            self._num[which] = 0
        self._weights = list(weights)
        self._heap = self._due()

    def _pass(self, which: int) -> float:
        return self._start[which] + (self._num[which] + 1) / self._weights[which]

    def _due(self) -> list[tuple[float, int]]:
        heap = [(self._pass(which), which) for which, weight in enumerate(self._weights) if weight > 0]
        heapify(heap)
        return heap
