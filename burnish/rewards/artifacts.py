"""What leaves an agent's place: declared files, as bytes, capped; and archives, read in a box of their own.

`collect(place, patterns, caps)` gives the files that a task declares. A pattern without a wildcard is read as it is;
for one with a wildcard (`out/*.csv`, `**/report.md`) the place's `sh` lists its files, and that list is believed in
nothing: each name is checked, matched here, and read by `Place.read`, which follows no link and takes no other kind.

Decisions: a declared file that is missing, a link, a pipe or too large is `refused` with the reason; that is the
agent's doing and never an error. More files or bytes than the caps allow end the collection as `is_over_caps`. An error
of `Place.read` is told from a place that has broken by asking the place to run something: one that cannot raises
`SandboxError`, which propagates.
Covered: hostile names, listings without end, files that change between listing and reading (the read decides).
Not covered: folders as such, permissions. A place whose root has no `sh` refuses patterns with wildcards.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from burnish.core.errors import SandboxError
from burnish.rewards.archives import BadArchive, Caps, as_input, checked_name
from burnish.sandbox import Box, Job, Outcome, ResourceLimits
from burnish.sandbox.place import Command, Place

READER = Path(__file__).with_name("archives.py").read_text(encoding="utf-8")
WILDCARD = re.compile(r"[*?]")
WALK = """
walk() {
    for entry in "$1"/* "$1"/.[!.]* "$1"/..?*; do
        if [ -h "$entry" ]; then continue
        elif [ -d "$entry" ]; then walk "$entry"
        elif [ -f "$entry" ]; then printf '%s\\0' "$entry"
        fi
    done
}
walk .
"""
LIST = Command(argv=("sh", "-c", WALK), output_bytes=1 << 20)
LISTING_BYTES = LIST.output_bytes
NOTHING = Command(argv=("true",))


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactCaps:
    """What may leave a place at one time."""

    file_bytes: int = 4 << 20
    total_bytes: int = 16 << 20
    num_files: int = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifacts:
    """The files that came out, by name, and why others did not."""

    files: Mapping[str, bytes]
    refused: Mapping[str, str]
    is_over_caps: bool = False


async def collect(place: Place, patterns: Sequence[str], caps: ArtifactCaps | None = None) -> Artifacts:
    """Read the declared files out of a place."""
    caps = caps or ArtifactCaps()
    plain = [checked_name(pattern) for pattern in patterns if not WILDCARD.search(pattern)]
    wild = [pattern for pattern in patterns if WILDCARD.search(pattern)]
    listing = await _listing(place) if wild else Listing(names=[], is_whole=True)
    names = [*plain, *(name for name in listing.names if any(matches(name, pattern) for pattern in wild))]
    files: dict[str, bytes] = {}
    refused = dict.fromkeys(wild if listing.fault else (), listing.fault)
    left = caps.total_bytes
    for name in dict.fromkeys(names):
        if len(files) + len(refused) >= caps.num_files or left <= 0:
            return Artifacts(files=files, refused=refused, is_over_caps=True)
        try:
            files[name] = await place.read(name, min(caps.file_bytes, left))
        except SandboxError as error:
            await place.run(NOTHING)  # raises if it is the place that has failed
            refused[name] = str(error)[:200]
        else:
            left -= len(files[name])
    return Artifacts(files=files, refused=refused, is_over_caps=not listing.is_whole)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The names that a place says it has, checked, in order; whether they are all; why there is no list."""

    names: Sequence[str]
    is_whole: bool
    fault: str = ""


async def _listing(place: Place) -> Listing:
    outcome = await place.run(LIST)
    if outcome.ending == "exited" and outcome.exit_code != 0:
        return Listing(names=[], is_whole=True, fault=f"the place cannot list its files (sh: {outcome.exit_code})")
    names: set[str] = set()
    for raw in outcome.stdout.split(b"\0")[:-1]:
        try:
            names.add(checked_name(raw.decode("utf-8")))
        except (UnicodeDecodeError, BadArchive):
            continue
    return Listing(names=sorted(names), is_whole=outcome.ending == "exited")


def matches(name: str, pattern: str) -> bool:
    """Whether a name fits: `*` and `?` within one folder, `**/` any number of folders; in linear steps."""
    return _fits(name.split("/"), pattern.removeprefix("./").split("/"))


def _fits(parts: Sequence[str], patterns: Sequence[str]) -> bool:
    """Match part by part, keeping all states at once, so that no pattern costs more than parts times patterns."""
    states = _past_stars({0}, patterns)
    for part in parts:
        moved = {
            s if patterns[s] == "**" else s + 1 for s in states if s < len(patterns) and _fits_part(part, patterns[s])
        }
        states = _past_stars(moved, patterns)
    return len(patterns) in states


def _past_stars(states: set[int], patterns: Sequence[str]) -> set[int]:
    found = set(states)
    for state in range(len(patterns)):
        if state in found and patterns[state] == "**":
            found.add(state + 1)
    return found


def _fits_part(part: str, pattern: str) -> bool:
    """`*` and `?` within one name, without backtracking over more than the last star."""
    if pattern == "**":
        return True
    at = star = mark = 0
    has_star, i = False, 0
    while i < len(part):
        if at < len(pattern) and pattern[at] == "*":
            has_star, star, mark, at = True, at, i, at + 1
        elif at < len(pattern) and pattern[at] in ("?", part[i]):
            at, i = at + 1, i + 1
        elif has_star:
            mark += 1
            at, i = star + 1, mark
        else:
            return False
    return all(letter == "*" for letter in pattern[at:])


async def read_in_box(data: bytes, box: Box, caps: Caps | None = None) -> dict[str, bytes]:
    """Read an archive inside the sandbox; `BadArchive` if it is broken, hostile or too large."""
    caps = caps or Caps()
    limits = ResourceLimits(
        wall_s=60.0,
        cpu_s=5.0,
        memory_mb=192 + 3 * ((caps.total_bytes + len(data)) >> 20),
        disk_mb=1 + (len(data) + (1 << 20) >> 20),
        num_processes=2,
        output_bytes=caps.total_bytes + (LISTING_BYTES << 1),
    )
    preload = ("json", "tarfile", "zipfile", "bz2", "lzma")
    outcome = await box.run(
        Job(source=READER, files={"archive": data}, stdin=as_input(caps), preload=preload, limits=limits)
    )
    return _read_answer(outcome, caps)


def _read_answer(outcome: Outcome, caps: Caps) -> dict[str, bytes]:
    """Cut the bytes as the head says, trusting neither."""
    head, newline, body = outcome.answer.partition(b"\n")
    if outcome.ending != "exited" or not newline:
        raise BadArchive(f"the reader did not come to an end ({outcome.ending})")
    try:
        answer = json.loads(head)
    except (ValueError, RecursionError):
        raise BadArchive("an answer that is not JSON") from None
    match answer:
        case {"files": [*entries]} if len(entries) <= caps.num_entries:
            pass
        case {"refused": str(reason)}:
            raise BadArchive(reason)
        case _:
            raise BadArchive("an answer of another form")
    files: dict[str, bytes] = {}
    at = 0
    for entry in entries:
        match entry:
            case [str(name), int(size)] if size >= 0:
                files[checked_name(name)] = body[at : at + size]
                at += size
            case _:
                raise BadArchive("an answer of another form")
    if sum(map(len, files.values())) > caps.total_bytes:
        raise BadArchive("more than the caps")
    return files
