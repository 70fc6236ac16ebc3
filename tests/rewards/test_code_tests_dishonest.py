"""The dishonest corpus against our harnesses: none is paid, but those that a grade is documented not to disprove."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from bench.wrong_passes import HONEST, Submission, by_value, read_corpus, suite, table
from burnish.rewards import code_tests
from burnish.sandbox import missing, open_box

CORPUS = read_corpus()
OURS = ("by value", "separate", "same_interpreter")


@pytest.fixture(scope="module")
def score() -> Iterator[Any]:
    if missing():
        pytest.skip("this host cannot isolate")
    with asyncio.Runner() as runner:
        opened = open_box(num_workers=1)
        box = runner.run(opened.__aenter__())

        def judge(one: Submission, harness: Any) -> float:
            by_tests = code_tests.verify(one.files, suite(harness), box) if harness != "by value" else None
            return runner.run(by_tests or by_value(one, box)).score or 0.0

        yield judge
        runner.run(opened.__aexit__(None, None, None))


@pytest.mark.slow
@pytest.mark.parametrize("harness", OURS)
@pytest.mark.parametrize("submission", CORPUS, ids=lambda one: one.name)
def test_no_submission_is_paid(score: Any, submission: Submission, harness: str) -> None:
    if submission.not_provable == harness:
        pytest.skip(f"the grade {harness} is documented not to disprove it")
    assert score(submission, harness) == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("harness", OURS)
def test_the_honest_one_is_paid(score: Any, harness: str) -> None:
    assert score(Submission(name="honest", what="", files=HONEST), harness) == 1.0


def test_the_corpus_is_large_and_names_few_as_not_provable() -> None:
    unprovable = {one.name for one in CORPUS if one.not_provable}
    assert len(CORPUS) >= 23 and unprovable == {"disguised_equal", "frame_reader", "memory_reader", "swaps_words"}


def test_the_table_counts_full_scores_alone() -> None:
    lines = table({"a": {"x": 1.0, "y": 0.25}, "b": {"x": 1.0, "y": 0.0}}).splitlines()
    assert lines[2] == "| `a` | PASS | 0.25 |" and lines[-1] == "| **wrong passes of 2** | **2** | **0** |"
