"""A reader inside the sandbox that has been taken over: whatever it says is refused, and nothing raises otherwise."""

import pytest

from burnish.rewards.archives import BadArchive, Caps
from burnish.rewards.artifacts import _read_answer
from burnish.rewards.sql import SqlTask, _table_complaint
from burnish.sandbox import Outcome


@pytest.mark.parametrize(
    "answer",
    [
        b"no json\n",
        b"[" * 100_000 + b"\n",
        b"\xff\n",
        b'{"files": [["a"]]}\n',
        b'{"files": [7]}\n',
        b'{"files": [["a", -1]]}\nb',
        b'{"files": [["a", "1"]]}\nb',
        b'{"files": [[["a"], 1]]}\nb',
        b'{"files": [["../a", 1]]}\nb',
        b'{"files": [' + b",".join(b'["a%d", 0]' % number for number in range(1001)) + b"]}\n",
    ],
)
def test_an_answer_about_an_archive_in_any_form_is_refused(answer):
    outcome = Outcome(ending="exited", exit_code=0, stdout=b"", stderr=b"", answer=answer, wall_s=0.0)
    with pytest.raises(BadArchive):
        _read_answer(outcome, Caps())


@pytest.mark.parametrize("rows", [[[]], [[1]], [[1, 2, 3]], [7], [None]])
def test_rows_of_another_length_are_no_answer(rows):
    task = SqlTask(gold="", by_name=True)
    gold = {"columns": ["a", "b"], "rows": [[1, 2]]}
    assert _table_complaint({"columns": ["b", "a"], "rows": rows}, gold, task)
