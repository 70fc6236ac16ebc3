"""The verifier `math`: one answer out of a reply, compared exactly with the truth.

Outcomes: `equal`, `different`, or `undecided`: both were read and the comparison was not settled, or the *truth* is of
a kind that is not read here. A reply that cannot be read, contradicts itself, hedges or exceeds a limit is different,
and so is one without a value where the truth has one: no reply gets out of a verdict by being strange.
An undecided verdict is `unscorable`, and its evidence begins with the word.
"""

from dataclasses import dataclass
from typing import Literal

from burnish.core.types import Json, Verdict
from burnish.rewards import number_words
from burnish.rewards.math import numeric, reading
from burnish.rewards.math.answer import BOX, answer_in_truth, answer_of
from burnish.rewards.math.clean import cleaned
from burnish.rewards.math.compare import is_same
from burnish.rewards.math.limits import MOST_CHARACTERS, TooBig, Undecided, Unreadable, bounded
from burnish.rewards.math.values import Value, exprs_of

MOST_SHOWN = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """How a comparison ended, what was read as the answer, and why it ended so."""

    outcome: Literal["equal", "different", "undecided"]
    answer: str
    why: str


def fault(truth: Json) -> str:
    """Why a truth cannot serve; empty if it can, be it undecided against most replies."""
    if isinstance(truth, bool | list | dict) or truth is None or not str(truth).strip():
        return f"{ascii(truth)[:60]} is no text of an expression, and no number"
    if len(str(truth)) > MOST_CHARACTERS:
        return f"a truth of {len(str(truth))} characters; at most {MOST_CHARACTERS}"
    try:
        _of_truth(str(truth))
    except Unreadable as error:
        return f"no answer is read in the truth {ascii(truth)[:60]}: {error}"
    return ""


def judge(truth: Json, reply: str) -> Verdict:
    """Score 1 for the truth, 0 for anything else, `unscorable` where that was not settled."""
    return verdict_of(decide(str(truth), reply))


def verdict_of(decision: Decision) -> Verdict:
    """A decision as a verdict."""
    if decision.outcome == "undecided":
        return Verdict.unscorable(f"undecided: {decision.why}; read {_brief(decision.answer)}")
    evidence = f"{decision.why}; read {_brief(decision.answer)}"
    return Verdict.scored(float(decision.outcome == "equal"), evidence=evidence)


def decide(truth: str, reply: str) -> Decision:
    """Find the answer in a reply and compare it with the truth."""
    if len(reply) <= MOST_CHARACTERS and cleaned(truth) == cleaned(reply):
        return Decision(outcome="equal", answer=reply, why="written alike")
    expected = number_words.in_digits(_of_truth(truth))
    try:
        answer = number_words.in_digits(answer_of(reply, _is_readable))
    except Unreadable as error:
        return Decision(outcome="different", answer="", why=f"no answer: {error}")
    with bounded():
        try:
            if len(answer) <= MOST_CHARACTERS and cleaned(expected) == cleaned(answer):
                return Decision(outcome="equal", answer=answer, why="written alike")
            return _compared(expected, answer)
        except TooBig as error:
            return Decision(outcome="different", answer=answer, why=f"beyond a limit: {error}")
        except Undecided as error:
            return Decision(outcome="undecided", answer=answer, why=str(error))


def _of_truth(truth: str) -> str:
    return answer_in_truth(truth, _is_readable) if BOX.search(truth) else truth


def _compared(expected: str, answer: str) -> Decision:
    try:
        truths = reading.read(expected)
    except (Unreadable, Undecided) as error:
        return Decision(outcome="undecided", answer=answer, why=f"the truth was not read: {error}")
    try:
        answers = reading.read(answer)
    except TooBig:
        raise
    except (Unreadable, Undecided) as error:
        return Decision(outcome="different", answer=answer, why=f"unreadable: {error}")
    if _any_same(truths, answers) or _is_same_list(expected, answer):
        return Decision(outcome="equal", answer=answer, why="equal")
    return Decision(outcome="different", answer=answer, why="not equal")


def _any_same(truths: list[Value], answers: list[Value]) -> bool:
    open_question: Undecided | None = None
    for truth in truths:
        for answer in answers:
            try:
                if is_same(truth, answer):
                    return True
            except Undecided as error:
                open_question = None if _is_out_of_range(truth, answer) else error
    if open_question is not None:
        raise open_question
    return False


def _is_out_of_range(truth: Value, answer: Value) -> bool:
    """Whether all numbers of the truth have values, and one of the answer is too large, or too strange, to have one."""
    return all(map(numeric.has_value, exprs_of(truth))) and not all(map(numeric.has_value, exprs_of(answer)))


def _is_same_list(expected: str, answer: str) -> bool:
    """Whether both are lists of three-digit numbers that look like one number with thousands marks."""
    truth, other = reading.read_as_list(expected), reading.read_as_list(answer)
    return truth is not None and other is not None and is_same(truth, other)


def _is_readable(text: str) -> bool:
    with bounded():
        try:
            reading.read(text)
        except (Unreadable, Undecided):
            return False
    return True


def _brief(text: str) -> str:
    shown = ascii(text)
    return shown if len(shown) <= MOST_SHOWN else shown[: MOST_SHOWN - 3] + "..."
