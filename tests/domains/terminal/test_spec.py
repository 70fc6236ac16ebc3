"""The record of a terminal task keeps everything through JSON, and refuses what it does not know."""

import json
from dataclasses import replace

import pytest

from burnish.core.errors import ConfigError
from burnish.domains.terminal.spec import CommandsCheck, EndStateCheck, TerminalTask, TestsCheck, from_json
from burnish.rewards.end_state import ExpectedFile
from burnish.rewards.process import Fault, Place

TESTS = TestsCheck(
    required=("test_a.py::test_one",), kept=("test_a.py::test_two",), tests={"test_a.py": "…"}, modules=("a",)
)
TASK = TerminalTask(
    family="fix_line",
    level=2,
    instruction="Make it right.\n",
    files={"a.py": "x = 1\r\n", "b/c.txt": "ü\x00"},
    executable=("run.sh",),
    setup=("git init -q",),
    protected=("tests/**",),
    check=TESTS,
    fault=Fault(places=(Place(path="a.py", first_line=1, last_line=2),), failing=frozenset("qwertz"), num_lines=1),
    oracle=({"name": "shell", "arguments": {"command": "ls", "n": [1, 2.5, None, True]}}, {"name": "submit"}),
    tags=("boundary",),
)


@pytest.mark.parametrize(
    "check",
    [
        TESTS,
        EndStateCheck(expected=(ExpectedFile(name="out", way="bytes", content=b"\xff\x00", weight=0.5),)),
        CommandsCheck(script="git diff --exit-code\n", includes_git=True),
    ],
)
def test_a_task_comes_back_from_json_as_it_was(check):
    task = replace(TASK, check=check)
    assert from_json(json.dumps(task.to_json())) == task


def test_equal_tasks_give_equal_json():
    assert json.dumps(TASK.to_json()) == json.dumps(from_json(json.dumps(TASK.to_json())).to_json())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"colour": 1}, "colour"),
        ({"level": "2"}, "level"),
        ({"check": {"kind": "commands", "script": "", "tests": {}}}, "check"),
        ({"fault": {"places": [], "failing": [], "num_lines": 1.5}}, "num_lines"),
    ],
)
def test_a_line_that_is_no_task_is_refused_by_name(change, message):
    data = TASK.to_json()
    assert isinstance(data, dict)
    with pytest.raises(ConfigError, match=message):
        from_json(json.dumps(data | change), "tasks.jsonl:7")
