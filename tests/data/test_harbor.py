"""Task folders of Harbor and terminal-bench are read unchanged; both reward files count."""

import re

import pytest

from burnish.core.errors import ConfigError
from burnish.data import harbor
from burnish.data.harbor_reward import NoReward, reward

TOML = """
schema_version = "1.4"
[task]
name = "org/hello"
[metadata]
difficulty = "easy"
anything = { goes = [1, "x"] }
[verifier]
timeout_sec = 30
[environment]
build_timeout_sec = 60.0
memory_mb = 512
"""
DOCKERFILE = "FROM python:3.11-slim\nWORKDIR /app\nCOPY data.txt ./\nCOPY src/ /app/src/\n"
YAML = """
instruction: |
  Write hello to hello.txt.
difficulty: easy
tags: [files]
parser_name: pytest
max_agent_timeout_sec: 360
"""


def write(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def harbor_folder(folder, **changed):
    files = {
        "task.toml": TOML,
        "instruction.md": "Do it in /app.\n",
        "environment/Dockerfile": DOCKERFILE,
        "environment/data.txt": "1\n",
        "environment/src/a.py": "x = 1\n",
        "tests/test.sh": "echo 1 > /logs/verifier/reward.txt\n",
        "solution/solve.sh": "true\n",
    }
    return write(folder, {name: text for name, text in (files | changed).items() if text is not None})


def test_a_harbor_folder_is_read(tmp_path):
    task = harbor.read_folder(harbor_folder(tmp_path))
    assert (task.name, task.instruction, task.config.verifier.timeout_sec) == ("org/hello", "Do it in /app.\n", 30.0)
    assert harbor.copied(task) == {"/app/data.txt": b"1\n", "/app/src/a.py": b"x = 1\n"}
    assert harbor.working_folder(task) == "/app" and harbor.needs_container(task) == ""


def test_a_terminal_bench_folder_is_read(tmp_path):
    files = {"task.yaml": YAML, "run-tests.sh": "pytest tests\n", "solution.sh": "x\n", "tests/test_outputs.py": "",
             "Dockerfile": "FROM ubuntu:24.04\n"}  # fmt: skip
    task = harbor.read_folder(write(tmp_path / "hello", files))
    assert (task.name, task.instruction, task.runner) == ("hello", "Write hello to hello.txt.\n", "run-tests.sh")
    assert sorted(task.tests) == ["run-tests.sh", "test_outputs.py"] and list(task.environment) == ["Dockerfile"]


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("task.toml", TOML + "memori = 3\n", r"unknown key 'environment.memori'; did you mean 'memory'"),
        ("task.toml", "[", "not valid TOML"),
        ("task.toml", TOML + 'os = "windows"\n', "Windows"),
        ("instruction.md", None, "no instruction.md"),
        ("tests/test.sh", None, "no tests/test.sh"),
        ("steps/one/instruction.md", "x", "several steps"),
    ],
)
def test_a_folder_that_does_not_fit_says_why(tmp_path, name, text, why):
    with pytest.raises(ConfigError, match=why):
        harbor.read_folder(harbor_folder(tmp_path, **{name: text}))


@pytest.mark.parametrize(
    ("dockerfile", "test_sh", "why"),
    [
        ("FROM ghcr.io/x/y:1\n", "", "builds on the image 'ghcr.io/x/y:1'"),
        ("FROM python:3.11\nRUN pip install \\\n  pandas\n", "", "instruction 2 .* installs: RUN pip install"),
        ("FROM python:3.11\nADD https://x /y\n", "", "instruction 2"),
        ("FROM python:3.11\n", "set -e\napt-get update\n", "over the network: 'apt-get'"),
        ("FROM python:3.11\nRUN apt-get update && apt-get install -y git\nRUN mkdir out\n", "pytest\n", ""),
    ],
)
def test_what_needs_a_container_says_so(tmp_path, dockerfile, test_sh, why):
    task = harbor.read_folder(
        harbor_folder(tmp_path, **{"environment/Dockerfile": dockerfile, "tests/test.sh": test_sh})
    )
    said = harbor.needs_container(task)
    assert bool(said) == bool(why)
    if why:
        assert re.search(why, said), said


@pytest.mark.parametrize(
    ("json_text", "txt", "expected"),
    [
        ("1", None, 1.0),
        (None, " 0.5\n", 0.5),
        ('{"reward": 0.25, "speed": 1}', None, 0.25),
        ('{"a": 1, "b": 0}', "0.5", 0.5),
        ("1.0", "1", 1.0),
    ],
)
def test_a_reward(json_text, txt, expected):
    assert reward(json_text, txt) == expected


@pytest.mark.parametrize(
    ("json_text", "txt"),
    [(None, None), ("1", "0"), ("NaN", None), ("2", None), ("true", None), ('{"a": "x"}', None), ("{}", None),
     (None, "yes"), (None, "inf"), ("[1]", None), ("1", "")],
)  # fmt: skip
def test_what_is_no_reward(json_text, txt):
    with pytest.raises(NoReward):
        reward(json_text, txt)
