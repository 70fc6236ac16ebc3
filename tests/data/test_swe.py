"""Rows of SWE-bench and SWE-smith are read in both forms of lists, and refused by name of the field."""

import json

import pytest

from burnish.core.errors import ConfigError
from burnish.data.swe import read_row, read_rows

ROW = {"instance_id": "a__b-1", "repo": "a/b", "problem_statement": "It fails.", "patch": "--- a/x\n+++ b/x\n"}
LISTS = {"FAIL_TO_PASS": ["t.py::x"], "PASS_TO_PASS": ["t.py::y"]}


def test_both_kinds_are_read(tmp_path):
    bench = (
        ROW
        | {name: json.dumps(ids) for name, ids in LISTS.items()}
        | {"base_commit": "c0", "test_patch": "", "version": "1"}
    )
    smith = ROW | LISTS | {"image_name": "img"}
    path = tmp_path / "rows.jsonl"
    path.write_text(f"{json.dumps(bench)}\n\n{json.dumps(smith)}\n")
    one, other = read_rows(path)
    assert (one.kind, other.kind) == ("swe-bench", "swe-smith")
    assert one.FAIL_TO_PASS == other.FAIL_TO_PASS == ["t.py::x"]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"FAIL_TO_PAS": []}, "unknown key 'FAIL_TO_PAS'; did you mean 'FAIL_TO_PASS'"),
        ({"FAIL_TO_PASS": "x"}, "neither a list nor JSON"),
        ({"FAIL_TO_PASS": []}, "FAIL_TO_PASS"),
        ({"base_commit": "c0"}, "has both or none"),
        ({"image_name": None}, "has both or none"),
        ({"patch": 3}, "'patch'"),
    ],
)
def test_what_is_no_row_says_why(changed, why):
    row = {**ROW, **LISTS, "image_name": "img", **changed}
    with pytest.raises(ConfigError, match=f"rows, line 1: .*{why}"):
        read_row(json.dumps(row), "rows, line 1")
