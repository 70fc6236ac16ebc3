"""Second opinions: who is asked about what, and that text of a reply never meets sympy outside an isolating box."""

import asyncio

import pytest

from burnish.rewards import verifier
from burnish.rewards.math.second_opinion import audit, compare_both, judge_math
from burnish.sandbox import Job, Outcome, missing
from tests.no_box import NoBox

pytestmark = pytest.mark.skipif(bool(missing()), reason="math-verify only ever runs in an isolating box")
needs_package = pytest.importorskip("math_verify", reason="pip install burnish[verify]")

INTEGRAL = r"$\int_0^1 x\,dx$"
"""A truth that our own comparison does not read."""


def test_undecided_answers_are_settled_by_the_other_package(runner, box) -> None:
    verdict = runner.run(judge_math(INTEGRAL, r"\boxed{\int_0^1 x\,dx + 0}", box))
    assert verdict.evidence.startswith("undecided here") and "second_opinion" in verdict.parts
    decided = runner.run(judge_math("1/2", r"\boxed{0.5}", box))
    assert (decided.score, "second_opinion" in decided.parts) == (1, False)


def test_without_a_box_that_isolates_undecided_stays_undecided(runner) -> None:
    for box in (None, NoBox()):
        verdict = runner.run(judge_math(INTEGRAL, r"\boxed{7}", box))
        assert verdict.kind == "unscorable" and verdict.evidence.startswith("undecided")
    assert runner.run(audit("1/2", r"\boxed{0.5}", NoBox())) is None


@pytest.mark.parametrize(
    ("truth", "reply", "score", "disagrees"),
    [
        ("1/2", r"\boxed{0.5}", 1, 0),
        ("1/2", r"\boxed{0.75}", 0, 0),
        ("50", r"\boxed{50\%}", 1, None),
        ("5", r"\boxed{x=5}", 1, 0),
        ("$(1,2)$", r"\boxed{[1,2]}", 0, None),
    ],
)
def test_both_are_asked_and_a_difference_is_marked(truth, reply, score, disagrees, runner, box) -> None:
    verdict = runner.run(compare_both(truth, reply, box))
    assert verdict.score == score and "second_opinion" in verdict.parts
    if disagrees is not None:
        assert verdict.parts["disagrees"] == disagrees
    second = runner.run(audit(truth, reply, box))
    assert (second.score != verdict.score) == bool(verdict.parts["disagrees"])


def test_code_in_an_answer_stays_in_the_box(runner, box, tmp_path) -> None:
    trap = tmp_path / "made"
    reply = f"\\boxed{{__import__('pathlib').Path('{trap}').touch()}}"
    runner.run(compare_both("5", reply, box))
    assert not trap.exists()


class SilentBox:
    """Isolates, and its job ends without a word."""

    isolation = "namespaces"

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    async def run(self, job: Job) -> Outcome:
        self.jobs.append(job)
        return Outcome(ending="timed_out", exit_code=None, stdout=b"", stderr=b"", answer=b"equal", wall_s=0.1)

    async def stop(self) -> None: ...


def test_an_end_other_than_its_own_is_no_opinion() -> None:
    assert asyncio.run(audit("1/2", r"\boxed{0.5}", SilentBox())) is None


@pytest.mark.parametrize("reply", ["", r"\boxed{}", "<think>It is 0.5."])
def test_what_holds_no_answer_is_not_asked_about(reply: str) -> None:
    box = SilentBox()
    assert asyncio.run(audit("1/2", reply, box)) is None and not box.jobs


@pytest.mark.parametrize(
    ("truth", "reply", "score"), [(18, "The answer is 18.", 1), (18, "The answer is 17.", 0), ("1/2", "#### 0.5", 1)]
)
def test_numbers_are_audited_by_the_reading_of_math(truth, reply: str, score: int) -> None:
    judge = verifier("number")
    assert judge.audit is not None and judge.judge(truth, reply).score == score
    second = asyncio.run(judge.audit(truth, reply, NoBox()))
    assert second is not None and second.score == score


def test_a_tolerance_has_no_second_implementation() -> None:
    assert verifier("number", {"tolerance": 0.1}).audit is None and verifier("exact").audit is None
