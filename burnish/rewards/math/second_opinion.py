"""A second opinion by `math-verify`, in a sandboxed job, where our own comparison is undecided.

Decisions: it is asked only about what is undecided, and only with a box. Its *equal* scores 1 and its *different* 0,
and the part `second_opinion` says that it was asked; where it fails, exceeds its limits or is not installed, undecided
stays undecided. `compare_both` asks both about anything and says where they disagree, and `audit` gives the second
opinion alone where ours is decided: for looking at a sample, not for training.
It evaluates text of the reply with sympy, whose parsers run code; so it only ever runs in a box, and what comes back is
one of three words. A box that isolates nothing is never asked.
"""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from burnish.core.types import Json, Verdict
from burnish.rewards.math.judging import decide, verdict_of
from burnish.sandbox import Box, Job, Outcome, ResourceLimits

Opinion = Literal["equal", "different", "none"]

WORKER = Path(__file__).with_name("second_worker.py").read_text(encoding="utf-8")
PACKAGE = "math_verify"
# What takes too long spends its processor time; the wall is far off, for a busy machine.
LIMITS = ResourceLimits(wall_s=60.0, cpu_s=2.0, memory_mb=768, num_processes=4, output_bytes=4096)


async def judge_math(truth: Json, reply: str, box: Box | None) -> Verdict:
    """Judge as `judging.judge` does, and ask for a second opinion where that is undecided."""
    decision = decide(str(truth), reply)
    if decision.outcome != "undecided" or box is None:
        return verdict_of(decision)
    opinion = await ask(str(truth), decision.answer, box)
    if opinion == "none":
        return Verdict.unscorable(f"undecided: {decision.why}; math-verify gave no opinion")
    is_equal = opinion == "equal"
    evidence = f"undecided here ({decision.why}); math-verify says {opinion}"
    return Verdict.scored(float(is_equal), {"second_opinion": float(is_equal)}, evidence)


async def compare_both(truth: Json, reply: str, box: Box) -> Verdict:
    """Judge, and put beside it what the second opinion is: the part `disagrees` is 1 where both decide differently."""
    decision = decide(str(truth), reply)
    opinion = await ask(str(truth), decision.answer, box)
    verdict = verdict_of(decision)
    if verdict.kind != "scored" or verdict.score is None or opinion == "none":
        return verdict
    disagrees = (opinion == "equal") != (decision.outcome == "equal")
    parts = {**verdict.parts, "second_opinion": float(opinion == "equal"), "disagrees": float(disagrees)}
    said = f"math-verify {'disagrees' if disagrees else 'agrees'}: {opinion}"
    return Verdict.scored(verdict.score, parts, f"{verdict.evidence}; {said}")


async def audit(truth: Json, reply: str, box: Box) -> Verdict | None:
    """What `math-verify` alone makes of an answer that is decided here; None where it has no opinion."""
    decision = decide(str(truth), reply)
    if decision.outcome == "undecided" or not decision.answer:
        return None
    opinion = await ask(str(truth), decision.answer, box)
    if opinion == "none":
        return None
    return Verdict.scored(float(opinion == "equal"), evidence=f"math-verify says {opinion}")


async def ask(truth: str, answer: str, box: Box) -> Opinion:
    """Run `math-verify` on two texts in a box."""
    if box.isolation == "none" or find_spec(PACKAGE) is None:
        return "none"
    work = json.dumps({"truth": truth, "answer": answer}).encode()
    return _read(await box.run(Job(source=WORKER, stdin=work, preload=(PACKAGE,), limits=LIMITS)))


def _read(outcome: Outcome) -> Opinion:
    said = outcome.answer.decode("utf-8", "replace").strip()
    if outcome.ending != "exited" or outcome.exit_code != 0:
        return "none"
    return "equal" if said == "equal" else "different" if said == "different" else "none"
