"""How rows of well-known benchmarks become tasks: one function a format, from a row to a `RowTask`.

| format | a row has | judged by |
|---|---|---|
| `gsm8k` | question, answer (its last line `#### 42`) | `number` |
| `math` | problem, solution (its last `\\boxed{}`), or answer | `math` |
| `mbpp` | text or prompt, test_list, code; test_setup_code or test_imports | its asserts, in the sandbox |
| `ifeval` | prompt, instruction_id_list, kwargs | `instruction_rules`, all of them |
| `ruler` | input, outputs | all outputs stand in the reply; the share is `retained` |
| `choice` | question, choices, answer (a place or a letter) | `choice` |

Fields that are not read are let be: these are other people's files. A field that is missing or of another kind is an
error with the line. What a format cannot judge (an instruction without a rule) is an error too, unless
`leave_out_unknown` is set.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from burnish.core.errors import ConfigError
from burnish.core.types import Json
from burnish.domains.evaluation_only import text
from burnish.domains.instruction_rules import CHECKS

GSM8K_MARK = "####"
BOXED = "\\boxed{"
LETTERS = "ABCDEFGHIJ"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTask:
    """What a row asks, and its judge: a verifier of `burnish.rewards`, or `tests`, `instructions`, `holds`."""

    prompt: str
    judge: str
    truth: Json
    gold: str | None = None
    max_new_tokens: int = 512


class Unknown(ConfigError):
    """A row that its format has no judge for."""


Format = Callable[[Mapping[str, Json], str], RowTask]


def gsm8k(row: Mapping[str, Json], where: str) -> RowTask:
    """A word problem and its number."""
    answer = text(row, "answer", where)
    _, mark, number = answer.rpartition(GSM8K_MARK)
    if not mark or not number.strip():
        raise ConfigError(f"{where}: the answer has no {GSM8K_MARK}; expected its last line to be {GSM8K_MARK} NUMBER")
    ask = f"{text(row, 'question', where)}\nThink step by step, and end with a line: Answer: NUMBER"
    return RowTask(prompt=ask, judge="number", truth=number.strip().replace(",", ""), gold=f"Answer: {number.strip()}")


def math(row: Mapping[str, Json], where: str) -> RowTask:
    """A problem and the expression that is its answer."""
    answer = text(row, "answer", where) if "answer" in row else last_box(text(row, "solution", where))
    if answer is None:
        raise ConfigError(f"{where}: the solution has no {BOXED}...}}, and there is no field 'answer'")
    ask = f"{text(row, 'problem', where)}\nThink step by step, and put the final answer in \\boxed{{}}."
    return RowTask(prompt=ask, judge="math", truth=answer, gold=f"\\boxed{{{answer}}}")


def last_box(solution: str) -> str | None:
    """What stands in the last box of a solution, its braces balanced."""
    start = solution.rfind(BOXED)
    if start < 0:
        return None
    depth, begin = 1, start + len(BOXED)
    for place in range(begin, len(solution)):
        depth += {"{": 1, "}": -1}.get(solution[place], 0)
        if depth == 0:
            return solution[begin:place]
    return None


def mbpp(row: Mapping[str, Json], where: str) -> RowTask:
    """A function by description, and the asserts that it must pass."""
    tests = [str(test) for test in _list(row, "test_list", where)]
    named = re.search(r"(\w+)\s*\(", tests[0].partition("assert")[2]) if tests else None
    if named is None:
        raise ConfigError(f"{where}: test_list names no function; expected asserts such as 'assert f(1) == 2'")
    setup = row.get("test_imports", row.get("test_setup_code", ""))
    lines = [str(line) for line in setup] if isinstance(setup, list) else [str(setup)]
    what = text(row, "prompt" if "prompt" in row else "text", where)
    ask = f"{what}\nIt must pass:\n```python\n{tests[0]}\n```\nAnswer with the code only, in a Python code block."
    gold = f"```python\n{row['code']}\n```" if isinstance(row.get("code"), str) else None
    truth: dict[str, Json] = {"setup": "\n".join(lines), "tests": [*tests], "name": named[1]}
    return RowTask(prompt=ask, judge="tests", truth=truth, gold=gold)


def ifeval(row: Mapping[str, Json], where: str) -> RowTask:
    """A request with instructions that a program checks."""
    names, arguments = _list(row, "instruction_id_list", where), _list(row, "kwargs", where)
    if len(names) != len(arguments):
        raise ConfigError(f"{where}: {len(names)} instructions and {len(arguments)} kwargs; expected one each")
    unknown = [str(name) for name in names if name not in CHECKS]
    if unknown:
        raise Unknown(f"{where}: no rule for instruction {unknown[0]!r}; there are: {', '.join(CHECKS)}")
    truth: list[Json] = [[name, _given(each)] for name, each in zip(names, arguments, strict=True)]
    return RowTask(prompt=text(row, "prompt", where), judge="instructions", truth=truth, max_new_tokens=1024)


def _given(arguments: Json) -> Json:
    """The arguments of one instruction, less those that say nothing."""
    return {key: each for key, each in arguments.items() if each is not None} if isinstance(arguments, dict) else {}


def ruler(row: Mapping[str, Json], where: str) -> RowTask:
    """A long text with a question, and what the answer must hold."""
    outputs = [str(each) for each in _list(row, "outputs", where)]
    if not outputs or not all(each.strip() for each in outputs):
        raise ConfigError(f"{where}: 'outputs' is empty, or holds an empty text")
    return RowTask(
        prompt=text(row, "input", where), judge="holds", truth=[*outputs], gold=", ".join(outputs), max_new_tokens=128
    )


def choice(row: Mapping[str, Json], where: str) -> RowTask:
    """A question with labelled choices."""
    choices = [str(each) for each in _list(row, "choices", where)]
    answer = row.get("answer")
    place = LETTERS.find(answer) if isinstance(answer, str) and len(answer) == 1 else answer
    if not isinstance(place, int) or not 0 <= place < len(choices) <= len(LETTERS):
        raise ConfigError(f"{where}: answer {answer!r} names none of {len(choices)} choices")
    listed = "\n".join(f"{letter}. {each}" for letter, each in zip(LETTERS, choices, strict=False))
    ask = f"{text(row, 'question', where)}\n{listed}\nAnswer with the letter alone."
    return RowTask(prompt=ask, judge="choice", truth=LETTERS[place], gold=LETTERS[place], max_new_tokens=16)


def _list(row: Mapping[str, Json], key: str, where: str) -> Sequence[Json]:
    value = row.get(key)
    if not isinstance(value, list):
        raise ConfigError(f"{where}: {key!r} is {type(value).__name__}, expected a list")
    return value


FORMATS: Mapping[str, Format] = {
    "gsm8k": gsm8k,
    "math": math,
    "mbpp": mbpp,
    "ifeval": ifeval,
    "ruler": ruler,
    "choice": choice,
}
