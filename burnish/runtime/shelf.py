"""The newest bucket of every tensor: one who comes late has all weights from here, and the learner is not asked.

It takes the memory of about one set of weights, of adapters only what has moved since.
"""

import threading
from dataclasses import replace

from burnish.runtime.transport import Carrier, Handle, Piece, Update


class Shelf:
    """What the updates so far come to; any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest: dict[str, tuple[Piece, Handle]] = {}
        self._last: Update | None = None

    def add(self, update: Update) -> list[Handle]:
        """Keep an update; returns the buckets in which nothing is the newest any more."""
        with self._lock:
            before = self._handles()
            for piece in update.pieces:
                self._newest[piece.name] = (piece, update.buckets[piece.bucket])
            self._last = update
            after = set(self._handles())
            return [handle for handle in before if handle not in after]

    def whole(self) -> Update:
        """All weights, as one update for a receiver with any."""
        with self._lock:
            assert self._last, "no update was kept yet"
            handles = self._handles()
            number_of = {handle: number for number, handle in enumerate(handles)}
            return replace(
                self._last, base="", buckets=tuple(handles),
                pieces=tuple(replace(piece, bucket=number_of[handle]) for piece, handle in self._newest.values()),
            )  # fmt: skip

    def clear(self, carrier: Carrier) -> None:
        """Drop everything; safe to call twice."""
        for handle in self._handles():
            carrier.drop(handle)
        self._newest.clear()

    def _handles(self) -> list[Handle]:
        return list(dict.fromkeys(handle for _, handle in self._newest.values()))
