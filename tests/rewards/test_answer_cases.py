"""Every row of the shared answer table holds."""

import json
from pathlib import Path

import pytest

from burnish.rewards import verifier

TABLE = Path(__file__).parents[1] / "cases" / "answers.jsonl"
ROWS = [json.loads(line) for line in TABLE.read_text(encoding="utf-8").strip().split("\n")]
VERIFIER_OF_KIND = {"final_number": "number", "json": "json"}


def test_the_table_has_rows_of_every_kind():
    assert {row["kind"] for row in ROWS} == set(VERIFIER_OF_KIND)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['id']}: {row['note']}")
def test_row(row):
    reply = row["reply"] if isinstance(row["reply"], str) else row["reply"]["repeat"][0] * row["reply"]["repeat"][1]
    verdict = verifier(VERIFIER_OF_KIND[row["kind"]]).judge(row["gold"], reply)
    assert (verdict.score == 1.0) == row["equal"], verdict.evidence
