"""What the edit tools do to a text, and which lines a change touches. Pure functions.

Decisions: a text that ends without a newline gets one, as editors do. A replacement names one place: where its text
stands several times, the one that is whole lines counts; else the policy is told where they are. Replacing whole lines
by nothing takes their newline too.
"""

from collections.abc import Sequence
from typing import NamedTuple

MOST_PLACES_SHOWN = 5


class Refused(ValueError):
    """An edit that cannot be made; the message is what the policy is told."""


class Lines(NamedTuple):
    """A range of lines, from 1; (0, 0) is the whole file."""

    first: int
    last: int


WHOLE = Lines(0, 0)


def ended(text: str) -> str:
    """A text whose last line ends."""
    return text if not text or text.endswith("\n") else text + "\n"


def replaced(text: str, old: str, new: str) -> str:
    """Replace the one place that says `old`."""
    if not old:
        raise Refused("old is empty; name the text to replace, or use insert")
    places = _places(text, old)
    if not places:
        raise Refused(f"old does not stand in the file{_nearly(text, old)}")
    if len(places) > 1:
        places = [at for at in places if _is_whole(text, at, old)]
    if len(places) != 1:
        lines = ", ".join(str(text.count("\n", 0, at) + 1) for at in _places(text, old)[:MOST_PLACES_SHOWN])
        raise Refused(f"old stands several times, in lines {lines}; name more of what is around it")
    start, end = places[0], places[0] + len(old)
    if not new and _is_whole(text, start, old) and text[end : end + 1] == "\n":
        end += 1
    return text[:start] + new + text[end:]


def inserted(text: str, line: int, content: str) -> str:
    """Insert lines after a line; 0 is before the first."""
    lines = text.splitlines(keepends=True)
    if not 0 <= line <= len(lines):
        raise Refused(f"the file has {len(lines)} lines; insert after line 0 to {len(lines)}")
    return ended("".join(lines[:line])) + ended(content) + "".join(lines[line:])


def numbered(text: str, first: int, last: int) -> str:
    """Lines of a text with their numbers; `last` 0 is the end."""
    lines = text.splitlines()
    last = min(last or len(lines), len(lines))
    if not 1 <= first <= max(1, len(lines)):
        raise Refused(f"the file has {len(lines)} lines; first is 1 to {max(1, len(lines))}")
    return "\n".join(f"{number}\t{lines[number - 1]}" for number in range(first, last + 1))


def touched(old: str | None, new: str | None, original: str | None) -> Lines:
    """Which lines of the original file a change from `old` to `new` touches; the whole file if it is new or gone."""
    if old is None or new is None or original is None:
        return WHOLE
    before, after, start = old.splitlines(), new.splitlines(), original.splitlines()
    num_head, num_tail = _common(before, after)
    first, last = num_head + 1, max(len(before) - num_tail, num_head + 1)
    return Lines(_in_original(first, before, start), _in_original(last, before, start))


def _in_original(line: int, before: Sequence[str], start: Sequence[str]) -> int:
    """Where a line of an edited file lies in the original one."""
    num_head, num_tail = _common(start, before)
    if line <= num_head:
        return line
    if line > len(before) - num_tail:
        return line - len(before) + len(start)
    return max(1, min(line, len(start) - num_tail))


def _common(one: Sequence[str], other: Sequence[str]) -> tuple[int, int]:
    """How many lines two texts begin and end with alike."""
    shortest = min(len(one), len(other))
    head = next((i for i in range(shortest) if one[i] != other[i]), shortest)
    rest = shortest - head
    tail = next((i for i in range(rest) if one[-1 - i] != other[-1 - i]), rest)
    return head, tail


def _places(text: str, old: str) -> list[int]:
    places: list[int] = []
    at = text.find(old)
    while at >= 0:
        places.append(at)
        at = text.find(old, at + len(old))
    return places


def _is_whole(text: str, at: int, old: str) -> bool:
    """Whether a place is whole lines, with or without the last newline."""
    end = at + len(old)
    starts = at == 0 or text[at - 1] == "\n"
    return starts and (end == len(text) or old.endswith("\n") or text[end] == "\n")


def _nearly(text: str, old: str) -> str:
    """Where the first line of `old` stands with other white space around it."""
    wanted = next((line.strip() for line in old.splitlines() if line.strip()), "")
    for number, line in enumerate(text.splitlines(), 1):
        if wanted and line.strip() == wanted:
            return f"; line {number} differs only in white space: {line!r:.80}"
    return ""
