"""A fault as a change of text: exact, small, and undone by its inverse.

Mutants keep every other byte of the file, so that a diff shows the fault and nothing else. Positions are those of
`ast`: lines from 1, columns in bytes of UTF-8.
"""

import ast
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Replace the bytes from `start` to `end` of a file, which read `before`, by `after`."""

    start: int
    end: int
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One fault: its kind, the function that it is in, the line of the file where it begins, and its edits."""

    kind: str
    function: str
    line: int
    edits: tuple[Edit, ...]


class Text:
    """A source file with the places of its syntax tree."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.bytes = source.encode()
        self._starts = [0]
        for line in self.bytes.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def span(self, node: ast.expr | ast.stmt | ast.arg | ast.excepthandler) -> tuple[int, int]:
        """Where a node's text begins and ends, in bytes."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return (
            self._starts[node.lineno - 1] + node.col_offset,
            self._starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def of(self, node: ast.expr | ast.stmt) -> str:
        """A node's text."""
        start, end = self.span(node)
        return self.bytes[start:end].decode()

    def line(self, at: int) -> int:
        """The line that a byte is on, from 1."""
        return bisect_right(self._starts, at)

    def between(self, start: int, end: int) -> str:
        """The text of a span."""
        return self.bytes[start:end].decode()

    def edit(self, start: int, end: int, after: str) -> Edit:
        """Replace a span."""
        return Edit(start=start, end=end, before=self.between(start, end), after=after)

    def replace(self, node: ast.expr | ast.stmt, after: str) -> Edit:
        """Replace a node."""
        return self.edit(*self.span(node), after)


def apply(source: str, edits: Sequence[Edit]) -> str:
    """Make the edits; a `ValueError` if two overlap, or if one does not find what it replaces."""
    data, end = source.encode(), len(source.encode()) + 1
    for edit in sorted(edits, key=lambda edit: -edit.start):
        if edit.end > end:
            raise ValueError(f"two edits overlap at byte {edit.start}")
        if data[edit.start : edit.end].decode(errors="replace") != edit.before:
            raise ValueError(f"at byte {edit.start} expected {edit.before!r}")
        data = data[: edit.start] + edit.after.encode() + data[edit.end :]
        end = edit.start
    return data.decode()
