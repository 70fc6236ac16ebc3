"""Contamination: does what trains hold what evaluates?

Two texts overlap if they share 13 words in a row (case and punctuation aside; Brown et al.,
https://arxiv.org/abs/2005.14165, appendix C) or 50 characters in a row (white space aside; OpenAI,
https://arxiv.org/abs/2303.08774, appendix C). A prompt too short for both counts where it is a training text as a
whole.

Decisions: what more than `MOST_ITEMS` items have in common (instructions, lists of tools) says nothing about one of
them; an overlap counts only if some window of it is rarer than that. Suites are asked in the order in which they were
added, evaluation-only ones first; each training text is reported once a suite, with the first item that it overlaps.
How: an index holds each item cut into pieces of half a window; a window of full length contains one of them
wherever it begins, so that the index is small, a training text is looked up piece by piece, and nothing is missed.
Covered: prompts, correct replies, what a run sampled. Not covered: paraphrases, translations, renamed entities.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["13 words", "50 characters", "whole prompt"]
WORD = re.compile(r"\w+")
NUM_WORDS, NUM_CHARACTERS = 13, 50
MOST_ITEMS = 10
MOST_SHOWN = 90
Elements = tuple[str, ...] | str
"""Words, or characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """A training text that holds a piece of an item."""

    suite: str
    item: str
    text: str
    """Which training text."""
    kind: Kind
    excerpt: str


@dataclass(slots=True)
class _Windows:
    """An index of items by pieces, for windows of one length."""

    length: int
    texts: list[Elements] = field(default_factory=list[Elements])
    owners: list[int] = field(default_factory=list[int])
    """Of each text: the item that it is of."""
    places: dict[Elements, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    """Where each piece stands: number of the text, and place in it."""

    @property
    def piece(self) -> int:
        """So long that a window holds one that begins at a multiple of it: twice less one is at most a window."""
        return (self.length + 1) // 2

    def add(self, item: int, elements: Elements) -> None:
        if len(elements) < self.length:
            return
        for start in range(0, len(elements) - self.piece + 1, self.piece):
            self.places[elements[start : start + self.piece]].append((len(self.texts), start))
        self.texts.append(elements)
        self.owners.append(item)

    def shared(self, elements: Elements) -> Iterator[tuple[int, Elements]]:
        """Items that share a window with a text, and the longest stretch that they share there."""
        for start in range(len(elements) - self.piece + 1):
            places = self.places.get(elements[start : start + self.piece], ())
            if len(places) > MOST_ITEMS and self._num_owners(places) > MOST_ITEMS:
                continue  # no window with such a piece is rare
            for text, place in places:
                first, last = _ends(elements, start, self.texts[text], place, self.piece)
                if last - first >= self.length and self._is_telling(elements, first, last, start):
                    yield self.owners[text], elements[first:last]

    def _is_telling(self, elements: Elements, first: int, last: int, start: int) -> bool:
        """Whether some window of a stretch, with the piece at `start` in it, stands in few items."""
        begins = range(max(first, start + self.piece - self.length), min(start, last - self.length) + 1)
        return any(self._num_items(elements[begin : begin + self.length]) <= MOST_ITEMS for begin in begins)

    def _num_items(self, window: Elements) -> int:
        pieces = (window[start : start + self.piece] for start in range(len(window) - self.piece + 1))
        return self._num_owners([place for piece in pieces for place in self.places.get(piece, ())])

    def _num_owners(self, places: Sequence[tuple[int, int]]) -> int:
        return len({self.owners[text] for text, _ in places})


def _ends(one: Elements, start: int, other: Elements, place: int, length: int) -> tuple[int, int]:
    """Where what two texts share around a common piece begins and ends in the first of them."""
    before, after = 0, length
    while start - before > 0 and place - before > 0 and one[start - before - 1] == other[place - before - 1]:
        before += 1
    while start + after < len(one) and place + after < len(other) and one[start + after] == other[place + after]:
        after += 1
    return start - before, start + after


class Index:
    """The items of suites, to be asked with training texts."""

    def __init__(self) -> None:
        self._items: list[tuple[str, str]] = []
        self._windows: Mapping[Kind, _Windows] = {
            "13 words": _Windows(NUM_WORDS),
            "50 characters": _Windows(NUM_CHARACTERS),
        }
        self._short: dict[str, int] = {}
        self.num_items: dict[str, int] = {}

    def add(self, suite: str, item: str, texts: Sequence[str]) -> None:
        """Enter an item with its texts; the first is the prompt, which counts as a whole where it is short."""
        number = len(self._items)
        self._items.append((suite, item))
        self.num_items[suite] = self.num_items.get(suite, 0) + 1
        for text in texts:
            self._windows["13 words"].add(number, words(text))
            self._windows["50 characters"].add(number, characters(text))
        if texts and len(words(texts[0])) < NUM_WORDS and len(characters(texts[0])) < NUM_CHARACTERS:
            self._short.setdefault(" ".join(words(texts[0])) or texts[0], number)

    def overlaps(self, name: str, text: str) -> list[Overlap]:
        """Of each suite, the first item that a training text overlaps."""
        found: dict[str, Overlap] = {}
        for number, kind, stretch in self._matches(text):
            suite, item = self._items[number]
            if suite not in found:
                found[suite] = Overlap(suite=suite, item=item, text=name, kind=kind, excerpt=_excerpt(stretch))
        return [found[suite] for suite in self.num_items if suite in found]

    def _matches(self, text: str) -> Iterator[tuple[int, Kind, Elements]]:
        whole = " ".join(words(text)) or text
        if whole in self._short:
            yield self._short[whole], "whole prompt", whole
        for kind, windows in self._windows.items():
            for number, stretch in windows.shared(words(text) if kind == "13 words" else characters(text)):
                yield number, kind, stretch


def words(text: str) -> tuple[str, ...]:
    """The words of a text, without case and punctuation."""
    return tuple(WORD.findall(text.casefold()))


def characters(text: str) -> str:
    """The characters of a text, with runs of white space as one blank."""
    return " ".join(text.split())


def _excerpt(stretch: Elements) -> str:
    text = stretch if isinstance(stretch, str) else " ".join(stretch)
    return text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN] + "..."
