"""The edit that turns a faulty text back: which lines to replace by which, and where they stand.

Decisions: whole lines, as few as undo the fault, and as many more above or below as make them stand in the file once,
so that an edit tool that replaces a text finds the place. One hunk for each run of lines that differ.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunk:
    """Lines of the faulty text, from 1, both included; `old` is what stands there, `new` what should."""

    first_line: int
    last_line: int
    old: str
    new: str
    num_lines: int
    """How many lines of the right text the fault has changed or dropped; at least 1."""


def hunks(faulty: str, right: str) -> list[Hunk]:
    """List the edits from the faulty text to the right one; applied from the last to the first they make it."""
    old_lines, new_lines = faulty.splitlines(keepends=True), right.splitlines(keepends=True)
    start = _num_equal(old_lines, new_lines)  # faults are small and files are not
    end = _num_equal(old_lines[start:][::-1], new_lines[start:][::-1])
    middles = old_lines[start : len(old_lines) - end], new_lines[start : len(new_lines) - end]
    blocks = SequenceMatcher(None, *middles, autojunk=False).get_opcodes()
    return [
        _unique(
            faulty, old_lines, new_lines, (start + old_first, start + old_end), (start + new_first, start + new_end)
        )
        for tag, old_first, old_end, new_first, new_end in blocks
        if tag != "equal"
    ]


def _num_equal(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines two texts begin with alike."""
    return next(
        (number for number, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _unique(
    faulty: str, old_lines: Sequence[str], new_lines: Sequence[str], old: tuple[int, int], new: tuple[int, int]
) -> Hunk:
    """Grow a hunk by equal lines until its old text stands in the file once, upwards first."""
    (start, end), (new_start, new_end) = old, new
    num_lines = max(1, new_end - new_start)
    while not (text := "".join(old_lines[start:end])) or faulty.count(text) > 1:
        if start:
            start, new_start = start - 1, new_start - 1
        elif end < len(old_lines):
            end, new_end = end + 1, new_end + 1
        else:
            break
    return Hunk(
        first_line=start + 1, last_line=end, old=text, new="".join(new_lines[new_start:new_end]), num_lines=num_lines
    )
