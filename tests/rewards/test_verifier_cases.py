"""The verifiers on a table of replies as an adversary and an honest hand write them: units, signs, hedges, thinking."""

import json
from pathlib import Path

import pytest

from burnish.rewards import verifier

TABLE = Path(__file__).with_name("verifier_cases.jsonl")
ROWS = [json.loads(line) for line in TABLE.read_text(encoding="utf-8").strip().split("\n")]
KINDS = ("choice", "exact", "json", "math", "number", "tool_call")


def test_the_table_has_rows_of_every_kind() -> None:
    assert {row["kind"] for row in ROWS} == set(KINDS) and len(ROWS) > 300
    assert all(sum(row["equal"] is equal for row in ROWS) > 100 for equal in (True, False))


@pytest.mark.parametrize("kind", KINDS)
def test_each_reply_is_judged_as_the_table_says(kind: str) -> None:
    rows = [row for row in ROWS if row["kind"] == kind]
    verdicts = [(row, verifier(kind).judge(row["gold"], row["reply"])) for row in rows]
    assert [(row, verdict.evidence) for row, verdict in verdicts if (verdict.score == 1.0) != row["equal"]] == []
