"""Turn what the worker of `code_tests` said into a verdict, in the trusted process.

Decisions: every expected id must have reported once, with the job's token; skipped, expected to fail and missing are
failed. A line without the token, an unknown id or a second report means that somebody else wrote, and all is
0, as it is where the worker says that a test's process wrote what it must not. A worker that stopped by its
limits, or was killed from within, keeps the reports that it had written. Tests that do not compile are the task's
fault: unscorable. A worker that fails by itself is an infrastructure error.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from burnish.core.types import Verdict
from burnish.sandbox import Outcome


class Tampered(Exception):
    """The reports cannot have come from the worker alone."""


@dataclass(slots=True, kw_only=True)
class Reports:
    """What the lines came to."""

    outcomes: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    notes: list[str] = field(default_factory=list[str])
    fault: str = ""
    has_ended: bool = False


def judge(
    outcome: Outcome,
    token: str,
    ids: Sequence[str],
    trust: str,
    *,
    is_all_or_nothing: bool = False,
    has_part_per_test: bool = False,
) -> Verdict:
    """Score = share of ids that passed, or 1 only if all did."""
    try:
        reports = _read(outcome, token, frozenset(ids))
    except Tampered as error:
        parts = _parts({}, ids, trust, is_tampered=True, has_part_per_test=has_part_per_test)
        return Verdict.scored(0.0, parts, f"[{trust}] tampered: {error}")
    if reports.fault:
        return Verdict.unscorable(reports.fault)
    if not reports.has_ended and outcome.ending == "exited":
        last = outcome.stderr[-400:].decode(errors="replace")
        return Verdict.infrastructure_error(f"the tests' worker ended with code {outcome.exit_code}: {last!a}")
    share = sum(_passed(reports.outcomes, one) for one in ids) / len(ids)
    parts = _parts(reports.outcomes, ids, trust, is_tampered=False, has_part_per_test=has_part_per_test)
    return Verdict.scored(
        float(share == 1) if is_all_or_nothing else share, parts, _evidence(reports, ids, trust, outcome.ending)
    )


def nothing(ids: Sequence[str], trust: str, why: str, *, has_part_per_test: bool) -> Verdict:
    """The verdict on files of which no test was run."""
    parts = _parts({}, ids, trust, is_tampered=False, has_part_per_test=has_part_per_test)
    return Verdict.scored(0.0, parts, f"[{trust}] {why}")


def _read(outcome: Outcome, token: str, ids: frozenset[str]) -> Reports:
    reports = Reports()
    for line in outcome.answer.split(b"\n")[:-1]:
        row = _row(line, token)
        if row.get("tampered"):
            raise Tampered(repr(row.get("note")))
        match row:
            case {"id": str(test_id), "outcome": str(word), "message": str(message)}:
                if test_id not in ids:
                    raise Tampered(f"a report under the unknown id {test_id!a}")
                if test_id in reports.outcomes:
                    raise Tampered(f"two reports under the id {test_id!a}")
                reports.outcomes[test_id] = word, message
            case {"fault": str(fault)}:
                reports.fault = fault
            case {"note": str(note)}:
                reports.notes.append(note)
            case {"end": True}:
                reports.has_ended = True
            case _:
                raise Tampered("a line of another form")
    return reports


def _row(line: bytes, token: str) -> Mapping[str, object]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise Tampered("a line that is not JSON") from None
    if not isinstance(row, dict) or row.get("token") != token:
        raise Tampered("a line without the token")
    return row


def _passed(outcomes: Mapping[str, tuple[str, str]], test_id: str) -> bool:
    return outcomes.get(test_id, ("missing", ""))[0] == "passed"


def _parts(
    outcomes: Mapping[str, tuple[str, str]],
    ids: Sequence[str],
    trust: str,
    *,
    is_tampered: bool,
    has_part_per_test: bool,
) -> dict[str, float]:
    parts = {
        "passed": sum(_passed(outcomes, one) for one in ids) / len(ids),
        "reported": len(outcomes) / len(ids),
        "tampered": float(is_tampered or any(word == "tampered" for word, _ in outcomes.values())),
        "separate": float(trust == "separate"),
    }
    if has_part_per_test:
        parts |= {f"test {one}": float(_passed(outcomes, one)) for one in ids}
    return parts


def _evidence(reports: Reports, ids: Sequence[str], trust: str, ending: str) -> str:
    failed = [one for one in ids if not _passed(reports.outcomes, one)]
    words = [f"[{trust}] {len(ids) - len(failed)} of {len(ids)} tests passed"]
    if ending != "exited":
        words.append(f"stopped: {ending}")
    words += [f"{one}: {_brief(*reports.outcomes.get(one, ('missing', '')))}" for one in failed[:3]]
    words += [_brief("note", note) for note in reports.notes[:2]]
    return "; ".join(words)


def _brief(word: str, message: str) -> str:
    return f"{word} {message[:160]!a}" if message else word
