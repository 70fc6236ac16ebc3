"""A user's file in the form of a well-known benchmark: `domain = "rows:gsm8k.jsonl"`. For evaluation only.

**State**: one question, as the format makes it (`row_formats`). Option `format`: gsm8k, math, mbpp, ifeval, ruler or
choice.

**Action**: one reply as free text.

**Reward**: 1 if the format's judge finds the reply right, else 0. Parts: `retained` (ruler: the share of what the
answer must hold), `followed` (ifeval: the share of instructions).

Options: `format`, `leave_out_unknown` (rows that the format has no judge for are left out and not an error).
Decisions: the file is read whole and checked when it is opened; the first fault is one message with its line. All rows
evaluate and none trains: data that should train are read by `jsonl`. Not covered: few-shot prompts, prompts of your own
(write a `jsonl` file for these).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from burnish.core.config import Strict, validate
from burnish.core.errors import ConfigError
from burnish.core.types import Json, Limits, Message, Split, Task, Verdict
from burnish.domains import Options, task_id
from burnish.domains.code import find_code
from burnish.domains.evaluation_only import place, read_rows
from burnish.domains.instruction_rules import follows
from burnish.domains.row_formats import FORMATS, RowTask, Unknown
from burnish.rewards import code_tests, verifier
from burnish.rewards.code_tests import TestSuite
from burnish.rewards.thinking import after_thinking
from burnish.sandbox import Box

OWN_JUDGES = ("tests", "instructions", "holds")
MOST_ANSWER_TIMES = 4
"""A reply that holds everything by being as long as its prompt has found nothing."""


class RowsOptions(Strict):
    """Options of the domain."""

    format: str = Field(min_length=1)
    leave_out_unknown: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The tasks of one file."""

    name: str
    format: str
    tasks: tuple[RowTask, ...]
    executes_code: bool = False

    def size(self, split: Split) -> int | None:
        """The rows evaluate; nothing trains."""
        return 0 if split == "train" else len(self.tasks)

    def task(self, split: Split, seed: int, index: int) -> Task:
        """The row at a place of the shuffled file."""
        number = place(self.name, len(self.tasks), split, seed, index)
        row = self.tasks[number]
        return Task(
            id=task_id(self.name, split, seed, index),
            domain=self.name,
            messages=(Message(role="user", content=row.prompt),),
            truth={"judge": row.judge, "truth": row.truth},
            gold=row.gold,
            limits=Limits(max_new_tokens=row.max_new_tokens, verify_wall_s=65.0 if self.executes_code else 10.0),
            tags=(f"row:{number + 1}", f"format:{self.format}"),
        )

    async def verify(self, task: Task, reply: str, box: Box) -> Verdict:
        """Ask the row's judge."""
        judge, truth = str(task.truth["judge"]), task.truth["truth"]
        if judge not in OWN_JUDGES:
            return verifier(judge).judge(truth, reply)
        if judge == "tests":
            return await _tests(truth, reply, box)
        said = after_thinking(reply) or ""
        return _instructions(truth, said) if judge == "instructions" else holds(truth, said)


def load(argument: str, options: Options) -> Rows:
    """Open and check a file; `ConfigError` with file and line for the first fault."""
    name = f"rows:{argument}"
    if not argument:
        raise ConfigError("domain 'rows' needs a file; for example domain = \"rows:gsm8k.jsonl\"")
    config = validate(RowsOptions, options, f"domain {name!r}")
    if config.format not in FORMATS:
        raise ConfigError(f"domain {name!r}: no format {config.format!r}; there are: {', '.join(FORMATS)}")
    tasks: list[RowTask] = []
    for number, row in enumerate(read_rows(Path(argument)), 1):
        try:
            tasks.append(FORMATS[config.format](row, f"{argument}:{number}"))
        except Unknown as error:
            if not config.leave_out_unknown:
                raise ConfigError(f"{error}; or set leave_out_unknown = true") from None
    if not tasks:
        raise ConfigError(f"{argument}: no rows that format {config.format!r} can judge")
    executes_code = any(task.judge == "tests" for task in tasks)
    return Rows(name=name, format=config.format, tasks=tuple(tasks), executes_code=executes_code)


async def _tests(truth: Json, reply: str, box: Box) -> Verdict:
    """Run a row's asserts on the reply's code, which is in another process than they are."""
    assert isinstance(truth, dict) and isinstance(truth["tests"], list)
    source = find_code(reply)
    if not source:
        return Verdict.scored(0.0, evidence="no code in the reply")
    asserts = "\n".join(f"        {line}" for test in truth["tests"] for line in str(test).splitlines())
    test = (
        f"import unittest\n{truth['setup']}\nfrom solution import {truth['name']}\n"
        f"class Checks(unittest.TestCase):\n    def test_check(self):\n{asserts}\n"
    )
    suite = TestSuite(
        tests={"test_it.py": test}, ids=("test_it.Checks.test_check",), modules=("solution",), trust="separate",
        framework="unittest", is_all_or_nothing=True,
    )  # fmt: skip
    return await code_tests.verify({"solution.py": source.encode(errors="replace")}, suite, box)


def _instructions(truth: Json, said: str) -> Verdict:
    assert isinstance(truth, list)
    pairs = [(str(each[0]), each[1]) for each in truth if isinstance(each, list)]
    missed = [name for name, arguments in pairs if isinstance(arguments, dict) and not follows(name, arguments, said)]
    share = 1 - len(missed) / len(pairs)
    evidence = f"did not follow {', '.join(missed)}" if missed else "followed all instructions"
    return Verdict.scored(float(not missed), {"followed": share}, evidence)


def holds(truth: Json, said: str) -> Verdict:
    """Whether a reply holds all that it must, and is an answer rather than the text said back."""
    assert isinstance(truth, list)
    wanted: Sequence[str] = [str(each) for each in truth]
    found = [each for each in wanted if each.casefold() in said.casefold()]
    share = len(found) / len(wanted)
    longest = max(400, MOST_ANSWER_TIMES * sum(map(len, wanted)))
    if len(said) > longest:
        return Verdict.scored(0.0, {"retained": 0.0}, f"{len(said)} characters, at most {longest} are an answer")
    return Verdict.scored(float(share == 1), {"retained": share}, f"holds {len(found)} of {len(wanted)}")
