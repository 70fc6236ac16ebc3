"""The verifier `math` on its own table: ways of writing, near misses, hedges and bombs."""

import json
from pathlib import Path

import pytest

from burnish.rewards import verifier
from burnish.rewards.math.judging import decide

TABLE = Path(__file__).with_name("math_cases.jsonl")
ROWS = [json.loads(line) for line in TABLE.read_text(encoding="utf-8").strip().split("\n")]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['id']}: {row['note']}")
def test_row(row):
    reply = row["reply"] if isinstance(row["reply"], str) else row["reply"]["repeat"][0] * row["reply"]["repeat"][1]
    decision = decide(row["gold"], reply)
    assert (decision.outcome == "equal") == row["equal"], decision.why


@pytest.mark.parametrize("row", [row for row in ROWS if "\\boxed" not in row["gold"]], ids=lambda row: row["id"])
def test_a_truth_is_its_own_right_answer(row):
    assert decide(row["gold"], row["gold"]).outcome == "equal"


def test_most_pairs_of_bare_answers_compare_alike_in_both_directions():
    bare = [
        row
        for row in ROWS
        if isinstance(row["reply"], str) and row["reply"].startswith("$") and "\\$" not in row["reply"]
    ]
    assert len(bare) > 150
    assert [row["id"] for row in bare if (decide(row["reply"], row["gold"]).outcome == "equal") != row["equal"]] == []


def test_a_truth_that_is_not_read_is_undecided_and_no_silent_zero():
    verdict = verifier("math").judge("$\\int_0^x f(t)\\,dt$", "7")
    assert verdict.kind == "unscorable" and verdict.evidence.startswith("undecided")
    assert verifier("math").judge("$\\int_0^x f(t)\\,dt$", "$\\int_0^x f(t)\\,dt$").score == 1.0


@pytest.mark.parametrize("truth", [None, True, [1], {"a": 1}, "", "9" * 5000])
def test_a_truth_that_cannot_serve_is_refused_at_loading(truth):
    assert verifier("math").fault(truth)


def test_numbers_serve_as_truths():
    assert verifier("math").judge(0.5, "1/2").score == 1.0
    assert verifier("math").judge(12, "\\boxed{12}").score == 1.0


def test_the_example_of_the_documentation_holds():
    page = (Path(__file__).parents[2] / "docs" / "verifiers.md").read_text(encoding="utf-8")
    code = [line.strip() for line in page.split("\n") if line.startswith("    ")]
    assert code[0] == "from burnish.rewards import verifier" and len(code) == 2
    assert eval(code[1], {"verifier": verifier}) == 1.0
