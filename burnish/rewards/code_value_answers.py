"""What a solution's process sent back, read as what it is: somebody's bytes.

Decisions: a process that ends by itself has answered every call once: an id that is missing, doubled or unknown,
or a line that is no answer, means that somebody else wrote, and nothing of it counts. A process that was
stopped (time, memory, output) keeps what it had answered in whole lines.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from burnish.core.types import Json
from burnish.rewards.value_compare import parse_line
from burnish.sandbox import Outcome


class Tampered(Exception):
    """The answers cannot have come from the worker alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one call came to: a value, or the name of the exception."""

    value: Json = None
    error: str = ""


def read_answers(outcome: Outcome, ids: Collection[str]) -> Mapping[str, Answer]:
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
        row = parse_line(line)
    except (ValueError, RecursionError):
        raise Tampered("an answer line that is not JSON") from None
    match row:
        case {"id": str(call_id), "value": value, **rest} if not rest:
            return call_id, Answer(value=value)
        case {"id": str(call_id), "error": str(error), **rest} if not rest:
            return call_id, Answer(error=error or "error")
        case _:
            raise Tampered("an answer line of another form")
