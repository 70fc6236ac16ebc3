"""Apply a unified diff, or its reverse, to a tree of texts: exactly, or not at all.

The format is that of GNU diffutils ("Detailed Description of Unified Format"), with git's extended headers. Decisions:
lines that a hunk names must stand where it says; there is no fuzz, since a patch that fits elsewhere makes another
task. Covered: changed, new and deleted files. Not covered: renames, modes and binary patches, which are refused.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from burnish.core.errors import ConfigError

HUNK: Final = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
REFUSED: Final = ("GIT binary patch", "Binary files ", "rename from ", "copy from ")
NOTHING: Final = "/dev/null"
NO_NEWLINE: Final = "\\ No newline at end of file"


@dataclass(slots=True, kw_only=True)
class Hunk:
    """Lines of a file and what they become, line ends included."""

    old_start: int
    new_start: int
    old: list[str] = field(default_factory=list[str])
    new: list[str] = field(default_factory=list[str])


@dataclass(slots=True, kw_only=True)
class FileDiff:
    """What happens to one file."""

    old_name: str
    new_name: str
    hunks: list[Hunk] = field(default_factory=list[Hunk])


def parse(diff: str) -> list[FileDiff]:
    """Read a diff; `ConfigError` for what is none."""
    found: list[FileDiff] = []
    lines, at = diff.split("\n"), 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if line.startswith(REFUSED):
            raise ConfigError(f"a diff with {line[:60]!r}: renames and binary patches are not covered")
        if line.startswith("--- "):
            if at == len(lines) or not lines[at].startswith("+++ "):
                raise ConfigError(f"a diff in which {line[:60]!r} is not followed by a line with +++")
            found.append(FileDiff(old_name=_name(line[4:]), new_name=_name(lines[at][4:])))
            at += 1
        elif match := HUNK.match(line):
            if not found:
                raise ConfigError(f"a diff that begins with a hunk: {line[:60]!r}")
            hunk, at = _hunk(match, lines, at)
            found[-1].hunks.append(hunk)
    if not found:
        raise ConfigError(f"no unified diff: {diff[:60]!r}")
    return found


def apply(tree: Mapping[str, str], diff: str, *, reverse: bool = False) -> dict[str, str | None]:
    """The files that change, as they are then; None is one that is gone."""
    changed: dict[str, str | None] = {}
    for file in parse(diff):
        old_name, new_name = (file.new_name, file.old_name) if reverse else (file.old_name, file.new_name)
        if old_name != NOTHING and old_name not in tree:
            raise ConfigError(f"a diff changes {old_name!r}, which the tree does not have")
        text = _applied(tree[old_name] if old_name != NOTHING else "", file, reverse)
        if old_name not in (NOTHING, new_name):
            changed[old_name] = None
        if new_name != NOTHING:
            changed[new_name] = text
    return changed


def _applied(text: str, file: FileDiff, reverse: bool) -> str:
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    done: list[str] = []
    at = 0
    for number, hunk in enumerate(file.hunks, 1):
        start, old, new = (hunk.new_start, hunk.new, hunk.old) if reverse else (hunk.old_start, hunk.old, hunk.new)
        first = start - 1 if old else start
        if first < at or lines[first : first + len(old)] != old:
            raise ConfigError(
                f"a diff does not fit: hunk {number} of {file.new_name!r}, line {start} of the tree's file"
            )
        done += lines[at:first] + new
        at = first + len(old)
    return "".join(done + lines[at:])


def _hunk(match: re.Match[str], lines: Sequence[str], at: int) -> tuple[Hunk, int]:
    """Read a hunk whose lines begin at a place; it, and where it ends."""
    hunk = Hunk(old_start=int(match[1]), new_start=int(match[3]))
    num_old, num_new = (int(match[number]) if match[number] else 1 for number in (2, 4))
    last: list[list[str]] = []
    while at < len(lines):
        if lines[at] == NO_NEWLINE:
            for side in last:
                side[-1] = side[-1].removesuffix("\n")
        elif len(hunk.old) < num_old or len(hunk.new) < num_new:
            last = _take(hunk, lines[at])
        else:
            break
        at += 1
    if (len(hunk.old), len(hunk.new)) != (num_old, num_new):
        raise ConfigError(f"a hunk {match[0]!r} of which lines are missing")
    return hunk, at


def _take(hunk: Hunk, line: str) -> list[list[str]]:
    """Add a line to the sides that have it; those sides."""
    kind, text = (line[0], f"{line[1:]}\n") if line else (" ", "\n")
    sides = {" ": [hunk.old, hunk.new], "-": [hunk.old], "+": [hunk.new]}.get(kind)
    if sides is None:
        raise ConfigError(f"a line of a hunk that begins with none of space, minus and plus: {line[:60]!r}")
    for side in sides:
        side.append(text)
    return sides


def _name(text: str) -> str:
    name = text.partition("\t")[0].strip().strip('"')
    if name == NOTHING:
        return name
    return name[2:] if name[:2] in ("a/", "b/") else name
