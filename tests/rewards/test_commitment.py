"""A reply is paid if it commits to one answer: a table of honest replies and of hedges, for three verifiers alike."""

import json
import time
from pathlib import Path

import pytest

from burnish.rewards import verifier

TABLE = Path(__file__).with_name("commitment_cases.jsonl")
ROWS = [json.loads(line) for line in TABLE.read_text(encoding="utf-8").strip().split("\n")]
KINDS = ("choice", "math", "number")
HOSTILE = [
    "6 ", "or 6 ", "The answer is 5. ", "The answer is 6. ", "\\boxed{6} ", "(1, ", "((((", "if x = 6 ", "six ",
    "It is 6. ", "-", "5 too!", "that is ", "because 6 ", "$6$ ", "= 6 ", "not ", "wait ", "A ", "B. ", "?",
    "6 apples ", "\n", "i.e. ", "####", "x^2+1 = ", "2 + 3 = 5. ", "which is 300 minutes ", "\\(6", "\\text{ or }",
]  # fmt: skip


def test_the_table_has_both_sorts_of_every_kind() -> None:
    assert {row["kind"] for row in ROWS} == set(KINDS) and len(ROWS) > 1_500
    for kind in KINDS:
        assert all(sum(row["kind"] == kind and row["equal"] is equal for row in ROWS) > 40 for equal in (True, False))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("equal", [True, False], ids=["honest", "hedged"])
def test_a_reply_is_paid_if_it_commits_to_the_right_answer(kind: str, equal: bool) -> None:
    rows = [row for row in ROWS if row["kind"] == kind and row["equal"] is equal]
    verdicts = [(row, verifier(kind).judge(row["gold"], row["reply"])) for row in rows]
    assert [(row, verdict.evidence) for row, verdict in verdicts if (verdict.score == 1.0) != equal] == []


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("piece", HOSTILE)
def test_what_stands_around_an_answer_costs_time_that_grows_with_its_length(name: str, piece: str) -> None:
    truth = "B" if name == "choice" else "5"
    filling = piece * (20_000 // len(piece))
    for reply in (
        f"The answer is {truth}. {filling}",
        f"{filling} The answer is {truth}",
        f"\\boxed{{{truth}}}{filling}",
    ):
        started = time.process_time()
        verifier(name).judge(truth, reply)
        assert time.process_time() - started < 2.0
