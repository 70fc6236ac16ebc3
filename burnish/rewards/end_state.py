"""A tree of files compared with what it should be: one score a file, and why each one is wrong.

Ways to compare: `bytes`, `text` (line ends, white space at line ends and empty lines at the end ignored, NFC), `json`
(equal as JSON, strictly read: types exact, keys in any order, doubled keys invalid), `sha256` (the hash of the
bytes, so that a large truth need not be kept) and `absent`.

Decisions: score = weighted share of the expected files that are right, or with `is_all_or_nothing` 1 if all are.
Files that nobody asked for cost nothing unless `allows_others` is off; then each is one more wrong file. What the agent
left is bytes: whatever it is, it compares unequal rather than raising. No expected file is the task's fault.
Covered: files by name. Not covered: empty folders, permissions, links (they never leave a place).
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from burnish.core.types import Verdict
from burnish.rewards import composed
from burnish.rewards.strict_json import LONGEST, InvalidJson, is_equal, parse

Way = Literal["bytes", "text", "json", "sha256", "absent"]

MOST_NOTES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedFile:
    """What one file must be. `content` is the hash in hexadecimal for `sha256` and unused for `absent`."""

    name: str
    way: Way = "text"
    content: bytes = b""
    weight: float = 1.0


def judge(
    files: Mapping[str, bytes],
    expected: Sequence[ExpectedFile],
    *,
    is_all_or_nothing: bool = False,
    allows_others: bool = True,
    refused: Mapping[str, str] | None = None,
    is_whole: bool = True,
) -> Verdict:
    """Compare what was collected with what should be there; `refused` says why a file did not come out.

    Where not all was collected (`Artifacts.is_over_caps`), no file counts as absent, and there are others.
    """
    fault = next(filter(None, map(_fault, expected)), "" if expected else "the task expects no file")
    if fault:
        return Verdict.unscorable(f"end state: {fault}")
    refused = dict(refused or {})
    if not is_whole:
        refused |= {one.name: "not collected" for one in expected if one.name not in files and one.name not in refused}
    wrong = {one.name: _complaint(files.get(one.name), one, refused.get(one.name, "")) for one in expected}
    others = [] if allows_others else sorted({*files, *refused} - {one.name for one in expected})
    others += [] if allows_others or is_whole else ["beyond the caps"]
    total = sum(one.weight for one in expected) + len(others)
    right = sum(one.weight for one in expected if not wrong[one.name])
    notes = [f"{name}: {note}" for name, note in wrong.items() if note] + [
        f"{name!a}: not asked for" for name in others
    ]
    share = min(1.0, right / total) if notes else 1.0
    score = float(not notes) if is_all_or_nothing else share
    parts = {"share": share, "num_others": float(len(others))}
    parts |= {f"file:{name}": float(not note) for name, note in wrong.items()}
    num_right = sum(1 for note in wrong.values() if not note)
    return Verdict.scored(score, parts, "; ".join([f"{num_right} of {len(expected)} files right", *notes[:MOST_NOTES]]))


def _fault(one: ExpectedFile) -> str:
    """Why a truth cannot be one; empty if it can."""
    if not (0 < one.weight < 1e9):
        return f"{one.name!r} has the weight {one.weight}; expected a positive one"
    if one.way == "sha256" and len(one.content) != hashlib.sha256().digest_size * 2:
        return f"{one.name!r}: {one.content[:80]!r} is no SHA-256 in hexadecimal"
    return _json_fault(one) if one.way == "json" else ""


def _json_fault(one: ExpectedFile) -> str:
    try:
        parse(one.content.decode("utf-8"))
    except (InvalidJson, UnicodeDecodeError) as error:
        return f"{one.name!r} cannot be read as JSON: {error}"
    return ""


def _complaint(content: bytes | None, one: ExpectedFile, refused: str) -> str:
    """Why a file is wrong; empty if it is right."""
    if one.way == "absent":
        return "still there" if content is not None or refused else ""
    if content is None:
        return refused or "missing"
    match one.way:
        case "bytes":
            return "" if content == one.content else "other bytes"
        case "sha256":
            is_same = hashlib.sha256(content).hexdigest().encode() == one.content.lower()
            return "" if is_same else "another hash"
        case "text":
            return "" if _lines(content) == _lines(one.content) else "another text"
        case "json":
            return _json_complaint(content, one.content)


def _json_complaint(content: bytes, expected: bytes) -> str:
    if len(content) > LONGEST:
        return f"longer than {LONGEST} bytes"
    try:
        value = parse(content.decode("utf-8"))
    except (InvalidJson, UnicodeDecodeError) as error:
        return f"invalid JSON: {str(error)[:80]}"
    return "" if is_equal(value, parse(expected.decode("utf-8"))) else "another value"


def _lines(content: bytes) -> list[str]:
    """The lines that count; bytes that are no UTF-8 stay what they are."""
    text = content.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    lines = [composed.nfc(line.rstrip()) for line in text.replace("\r\n", "\n").split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines
