"""Code judged by the values that it gives: the solution runs inside, the comparison outside.

A solution's process (`code_value_worker`, in a fresh box) gets inputs under random ids, in a random order, and answers
with values on a private descriptor. This module reads them as what they are, somebody's bytes, and compares.

Decisions: answers that break the protocol score 0 as tampered, the whole reply. Calls without an answer fail.
Cases that the prompt shows count only where there are no others. Where all of those that a task brings are right
and a quarter or more of the *perturbed* ones is wrong, the reply is marked `special_cased`; where some are wrong and
the answers to all perturbed ones are one value, or the input said back, it is marked `computes_nothing`.
`num_rounds` > 1 asks each case again in another order: a value that depends on the order or on chance fails.
What a task names (comparison, observation) comes from fixed lists; code of a task runs only in a box.
Covered: functions, methods as lists of steps, arguments that a call changes, typed values, expected exceptions.
Not covered: several files, programs that read stdin (`stdio`), coroutines.
"""

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import SystemRandom
from typing import Literal, get_args

from burnish.core.types import Json, Verdict
from burnish.rewards.code_value_answers import Answer, Tampered, read_answers
from burnish.rewards.value_compare import EXACT, Comparison, is_same
from burnish.sandbox import Box, Job, Outcome, ResourceLimits

Origin = Literal["shown", "hidden", "perturbed"]
Observe = Literal["value", "arguments", "both"]

WORKER = Path(__file__).with_name("code_value_worker.py").read_text(encoding="utf-8")
ORIGINS: tuple[Origin, ...] = get_args(Origin)
SPECIAL_CASED_FROM = 0.25
# A hang spends its processor time; the wall is far off, so that a busy machine never looks like a hang.
LIMITS = ResourceLimits(wall_s=60.0, cpu_s=6.0, memory_mb=256, num_processes=8, output_bytes=1 << 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One call and what it must come to: `expected`, or an exception whose class is named `raises`.

    With `is_class`, arguments are `[constructor's arguments, [[method, arguments], ...]]`.
    """

    arguments: list[Json]
    expected: Json = None
    raises: str = ""
    is_known: bool = True
    """Whether `expected` and `raises` say anything; if not, equal answers in all rounds are all that is asked."""
    origin: Origin = "hidden"


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeTask:
    """What a solution must define, and the cases that judge it."""

    function: str
    cases: tuple[Case, ...]
    comparison: Comparison = EXACT
    is_class: bool = False
    observe: Observe = "value"
    num_rounds: int = 1
    keeps_order: bool = False
    """Whether the first round asks in the order of `cases`, and not in a random one."""
    call_s: float | None = 1.0
    """Processor time of one call, each then apart from the others; None: all calls in one process."""
    load_s: float = 3.0
    most_deaths: int = 2
    limits: ResourceLimits = LIMITS
    preload: tuple[str, ...] = ("json",)


Asked = Mapping[str, int]
"""The id of each call, in the order in which they are made, and the number of its case."""


async def verify(task: CodeTask, source: str, box: Box) -> Verdict:
    """Run a reply's code on all cases and compare here; a bad reply scores, `SandboxError` propagates."""
    asked = ask(task)
    return judge_outcome(task, asked, await box.run(job(task, source, asked)))


def judge_outcome(task: CodeTask, asked: Asked, outcome: Outcome) -> Verdict:
    """Judge what a job sent back."""
    try:
        answers = read_answers(outcome, asked)
    except Tampered as error:
        return nothing(f"tampered: {error}", tampered=True)
    return judge(task, asked, answers, outcome.ending)


async def values_of(task: CodeTask, source: str, box: Box) -> list[Answer | None]:
    """What a trusted reference gives for each case, in a box of its own; None where it gave nothing."""
    asked = ask(replace(task, num_rounds=1))
    outcome = await box.run(job(task, source, asked))
    try:
        answers = read_answers(outcome, asked)
    except Tampered:
        return [None] * len(task.cases)
    by_case = {number: answers.get(call_id) for call_id, number in asked.items()}
    return [by_case[number] for number in range(len(task.cases))]


def ask(task: CodeTask) -> Asked:
    """Give each case an id that cannot be guessed, once a round, in an order that nobody knows."""
    num_cases = len(task.cases)
    rounds = [SystemRandom().sample(range(num_cases), num_cases) for _ in range(task.num_rounds)]
    if task.keeps_order:
        rounds[0] = list(range(num_cases))
    numbers = [number for one in rounds for number in one]
    return {secrets.token_hex(8): number for number in numbers}


def job(task: CodeTask, source: str, asked: Asked) -> Job:
    """The job that answers; it holds inputs and no expected value."""
    stdin = json.dumps(work(task, source, asked)).encode()
    return Job(source=WORKER, stdin=stdin, preload=task.preload, limits=task.limits)


def work(task: CodeTask, source: str, asked: Asked) -> dict[str, Json]:
    """What the worker reads; an option that is off is left out."""
    options: dict[str, Json] = {
        "is_class": task.is_class,
        "typed": task.comparison.is_typed,
        "observe": "" if task.observe == "value" else task.observe,
    }
    if task.call_s is not None:
        options |= {"call_s": task.call_s, "load_s": task.load_s, "most_deaths": task.most_deaths}
    calls: list[Json] = [[call_id, task.cases[number].arguments] for call_id, number in asked.items()]
    kept = {name: option for name, option in options.items() if option}
    return {"source": source, "function": task.function, "calls": calls, **kept}


def judge(task: CodeTask, asked: Asked, answers: Mapping[str, Answer], ending: str) -> Verdict:
    """Score = share of the cases that count whose every answer is right."""
    notes: dict[int, str] = {}
    first: dict[int, Answer] = {}
    for call_id, number in asked.items():
        answer, case = answers.get(call_id), task.cases[number]
        if answer and not case.is_known:
            note = _change(first.setdefault(number, answer), answer, task.comparison)
        else:
            note = complaint(answer, case, task.comparison, ending)
        if note:
            notes.setdefault(number, f"{task.function}{brief(case.arguments)}: {note}")
    unlisted = [(task.cases[number], answers.get(call_id)) for call_id, number in asked.items()]
    is_trivial = _is_trivial([(case.arguments, answer) for case, answer in unlisted if case.origin == "perturbed"])
    returned = sum(not answer.error for answer in answers.values()) / len(asked)
    return _sum_up(task, notes, returned, is_trivial)


def _is_trivial(answered: Sequence[tuple[list[Json], Answer | None]]) -> bool:
    """Whether the answers that came are one value for all inputs, or each the input or one and the same part of it."""
    given = [(arguments, answer.value) for arguments, answer in answered if answer is not None and not answer.error]
    is_constant = len({json.dumps(value) for _, value in given}) == 1
    places = range(min((len(arguments) for arguments, _ in given), default=0))
    return len(answered) > 1 and (
        is_constant or any(all(value == arguments[place] for arguments, value in given) for place in places)
    )


def _sum_up(task: CodeTask, notes: Mapping[int, str], returned: float, is_trivial: bool) -> Verdict:
    is_right: dict[Origin, list[bool]] = {origin: [] for origin in ORIGINS}
    for number, case in enumerate(task.cases):
        if case.is_known or number in notes:  # what no reference vouches for can only cost
            is_right[case.origin].append(number not in notes)
    counting = is_right["hidden"] + is_right["perturbed"] or is_right["shown"]
    parts = {"passed": share(counting), "returned": returned, "tampered": 0.0, **_origins(is_right)}
    if is_right["perturbed"]:
        parts["computes_nothing"] = float(is_trivial and not all(counting))
    evidence = [f"{sum(counting)} of {len(counting)} calls right", *list(notes.values())[:3]]
    if parts.get("special_cased"):
        evidence.insert(1, "special-cased: right on the given inputs, wrong on others like them")
    return Verdict.scored(share(counting), parts, "; ".join(evidence))


def share(is_right: Sequence[bool]) -> float:
    """The share that is right; 0 of nothing is 0."""
    return sum(is_right) / len(is_right) if is_right else 0.0


def _origins(is_right: Mapping[Origin, Sequence[bool]]) -> dict[str, float]:
    """The shares by origin, for what is there, and whether inputs were special-cased."""
    shares = {str(origin): share(rights) for origin, rights in is_right.items() if rights}
    if len(shares) == 1 and "perturbed" not in shares:
        return {}
    if is_right["perturbed"]:
        given = [*is_right["shown"], *is_right["hidden"]]
        knows_given = bool(given) and all(given)
        shares["special_cased"] = float(knows_given and shares["perturbed"] <= 1 - SPECIAL_CASED_FROM)
    return shares


def nothing(evidence: str, *, tampered: bool = False) -> Verdict:
    """The verdict on a reply of which no call counts."""
    return Verdict.scored(0.0, {"passed": 0.0, "returned": 0.0, "tampered": float(tampered)}, evidence)


def complaint(answer: Answer | None, case: Case, comparison: Comparison, ending: str) -> str:
    """Why a call failed; empty if it passed."""
    if answer is None:
        return f"no value ({ending})"
    if case.raises or answer.error:
        if case.raises == answer.error:
            return ""
        came_to = f"raised {answer.error[:40]!a}" if answer.error else f"gave {brief(answer.value)}"
        return came_to + (f", expected {case.raises}" if case.raises else "")
    if is_same(answer.value, case.expected, comparison):
        return ""
    return f"gave {brief(answer.value)}, expected {brief(case.expected)}"


def _change(first: Answer, answer: Answer, comparison: Comparison) -> str:
    """Why two answers to one input are not one value; empty if they are."""
    known = replace(comparison, rule="exact") if comparison.rule == "one_of" else comparison
    if first.error == answer.error and is_same(answer.value, first.value, known):
        return ""
    return f"gave {brief(first.value)} once and {brief(answer.value)} later"


def brief(value: Json) -> str:
    """A value as a line of evidence shows it."""
    try:
        text = json.dumps(value)
    except RecursionError:
        return "a deeply nested value"
    return text if len(text) <= 60 else text[:57] + "..."
