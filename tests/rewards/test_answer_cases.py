"""Every row of the shared answer table holds."""

import json
import time
from pathlib import Path

import pytest

from burnish.rewards import verifier

TABLE = Path(__file__).parents[1] / "cases" / "answers.jsonl"
ROWS = [json.loads(line) for line in TABLE.read_text(encoding="utf-8").strip().split("\n")]
VERIFIER_OF_KIND = {"final_number": "number", "json": "json", "math": "math"}
TOOL_ARGUMENT = "tool_argument_"


def verdict_of(row):
    reply = row["reply"]
    if row["kind"].startswith(TOOL_ARGUMENT):
        schema = {"type": "object", "properties": {"x": {"type": row["kind"].removeprefix(TOOL_ARGUMENT)}}}
        call = json.dumps({"name": "tool", "arguments": {"x": reply}})
        truth = {"name": "tool", "arguments": {"x": row["gold"]}}
        return verifier("tool_call", {"tools": {"tool": schema}}).judge(truth, call)
    text = reply if isinstance(reply, str) else reply["repeat"][0] * reply["repeat"][1]
    return verifier(VERIFIER_OF_KIND[row["kind"]]).judge(row["gold"], text)


def test_the_table_has_rows_of_every_kind():
    kinds = {row["kind"] for row in ROWS}
    assert {kind for kind in kinds if not kind.startswith(TOOL_ARGUMENT)} == set(VERIFIER_OF_KIND)
    assert len(kinds) == 7 and len(ROWS) == 117


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['id']}: {row['note']}")
def test_row(row):
    started = time.process_time()
    verdict = verdict_of(row)
    assert (verdict.score == 1.0) == row["equal"], verdict.evidence
    assert verdict.kind == "scored" or verdict.evidence.startswith("undecided")
    assert time.process_time() - started < 2.0
