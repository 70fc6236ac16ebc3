"""Judge what the scoring program (`rg_worker`) sent back, in the trusted process.

Decisions: the first line of its answer is about the reference alone. Without it the generator or its scorer is at
fault: `timeout` where time ran out, else `unscorable`. With it and without a second line the answer made the
scorer raise or exceed its limits, and is wrong. A score that is NaN or outside [0, 1] is `unscorable`.
In full means exactly 1: a scorer of prefixes gives 1 - 1e-16 to a right answer with more behind it.
"""

import json
import math

from burnish.core.types import Verdict
from burnish.sandbox import Outcome

MOST_SHOWN = 60


def judge(outcome: Outcome, *, question: str, answer: str) -> Verdict:
    """Score 1 if the scorer pays in full for the answer, else 0."""
    lines = outcome.answer.decode("utf-8", "replace").split("\n")[:-1]
    if not lines:
        return _without_reference(outcome)
    first = json.loads(lines[0])
    if first["question"] != question:
        return Verdict.unscorable("the generator made another question from the same seed in the sandbox")
    if first["reference"] is not None and not float(first["reference"]) >= 1:
        return Verdict.unscorable(f"the scorer gives {first['reference']} to the reference answer")
    if len(lines) == 1:
        return Verdict.scored(0.0, {"scorer": 0.0}, _ended_on(answer, outcome))
    said = float(json.loads(lines[1])["score"])
    if not (math.isfinite(said) and 0 <= said <= 1):
        return Verdict.unscorable(f"the scorer gives {said}, expected a number in [0, 1]")
    is_right = said == 1
    return Verdict.scored(float(is_right), {"scorer": said}, f"the scorer gives {said:.3g} to {_brief(answer)}")


def _without_reference(outcome: Outcome) -> Verdict:
    if outcome.ending == "timed_out":
        return Verdict.timed_out("the generator or its scorer ran out of time before it saw the reply")
    return Verdict.unscorable(f"the scoring program ended before it saw the reply ({_ending(outcome)})")


def _ended_on(answer: str, outcome: Outcome) -> str:
    if outcome.ending == "exited":
        return f"the scorer could not read {_brief(answer)} ({_ending(outcome)})"
    return f"the scorer exceeded its limits on {_brief(answer)} ({outcome.ending})"


def _ending(outcome: Outcome) -> str:
    last = outcome.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
    return ascii(last)[:120] if last else outcome.ending


def _brief(answer: str) -> str:
    return ascii(answer if len(answer) <= MOST_SHOWN else answer[:MOST_SHOWN] + "...")
