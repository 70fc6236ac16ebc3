"""Judge what a solution's process sent back, in the trusted process.

Decisions: values are compared with exact types (`True` is not 1, 1 is not 1.0), floats to 1e-9
relative; dict keys by name. A process that ends by itself has answered every call once: an id that
is missing, doubled or unknown, or a line that is no answer, means that somebody else wrote, and the
whole reply scores 0 as tampered. A process that was stopped (time, memory, output) keeps what it
had answered in whole lines; its other calls fail.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from burnish.core.types import Json, Verdict
from burnish.sandbox import Outcome


class Tampered(Exception):
    """The answers cannot have come from the worker alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one call came to: a value, or the name of the exception."""

    value: Json = None
    error: str = ""


def is_same(value: Json, expected: Json) -> bool:
    """Compare two JSON values with exact types; floats may differ by 1e-9 relative."""
    if type(value) is not type(expected):
        return False
    if isinstance(value, float) and isinstance(expected, float):
        return math.isclose(value, expected, rel_tol=1e-9, abs_tol=1e-12)
    if isinstance(value, list) and isinstance(expected, list):
        return len(value) == len(expected) and all(map(is_same, value, expected))
    if isinstance(value, dict) and isinstance(expected, dict):
        return value.keys() == expected.keys() and all(is_same(value[key], expected[key]) for key in value)
    return value == expected


def read_answers(outcome: Outcome, ids: Sequence[str]) -> Mapping[str, Answer]:
    """Parse the answer lines; `Tampered` where they break the protocol."""
    lines = outcome.answer.split(b"\n")
    unfinished = lines.pop()
    answers: dict[str, Answer] = {}
    for line in lines:
        call_id, answer = _read_line(line)
        if call_id not in ids:
            raise Tampered("an answer under an id that was never given")
        if call_id in answers:
            raise Tampered("two answers under one id")
        answers[call_id] = answer
    if outcome.ending == "exited" and (unfinished or len(answers) < len(ids)):
        raise Tampered(f"the process ended by itself after {len(answers)} of {len(ids)} answers")
    return answers


def _read_line(line: bytes) -> tuple[str, Answer]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise Tampered("an answer line that is not JSON") from None
    match row:
        case {"id": str(call_id), "value": value, **rest} if not rest:
            return call_id, Answer(value=value)
        case {"id": str(call_id), "error": str(error), **rest} if not rest:
            return call_id, Answer(error=error or "error")
        case _:
            raise Tampered("an answer line of another form")


def judge(
    outcome: Outcome, ids: Sequence[str], function: str, calls: Sequence[Json], expected: Sequence[Json]
) -> Verdict:
    """Score = share of calls whose value is the expected one."""
    try:
        answers = read_answers(outcome, ids)
    except Tampered as error:
        return nothing(f"tampered: {error}", tampered=True)
    notes: list[str] = []
    for call_id, arguments, value in zip(ids, calls, expected, strict=True):
        note = _complaint(answers.get(call_id), value, outcome.ending)
        if note:
            notes.append(f"{function}{json.dumps(arguments)}: {note}")
    num_passed = len(ids) - len(notes)
    num_returned = sum(1 for answer in answers.values() if not answer.error)
    parts = {"passed": num_passed / len(ids), "returned": num_returned / len(ids), "tampered": 0.0}
    return Verdict.scored(
        num_passed / len(ids), parts, "; ".join([f"{num_passed} of {len(ids)} calls right", *notes[:3]])
    )


def nothing(evidence: str, *, tampered: bool = False) -> Verdict:
    """The verdict on a reply of which no call counts."""
    return Verdict.scored(0.0, {"passed": 0.0, "returned": 0.0, "tampered": float(tampered)}, evidence)


def _complaint(answer: Answer | None, expected: Json, ending: str) -> str:
    """Why a call failed; empty if it passed."""
    if answer is None:
        return f"no value ({ending})"
    if answer.error:
        return f"raised {answer.error[:40]!a}"
    if is_same(answer.value, expected):
        return ""
    return f"gave {_brief(answer.value)}, expected {_brief(expected)}"


def _brief(value: Json) -> str:
    try:
        text = json.dumps(value)
    except RecursionError:
        return "a deeply nested value"
    return text if len(text) <= 60 else text[:57] + "..."
