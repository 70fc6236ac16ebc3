"""Short Python functions from a description, judged by hidden and perturbed inputs in the sandbox.

**State**: one question: what the function is called, what it takes, what it returns, and one example.
The inputs that judge it are hidden: eight that the task lists (the empty one among them where there is one), and
eight perturbed ones, like those and listed nowhere.

**Action**: one reply. The first fenced code block counts if there is one, else the first run of lines
that look like a function; text around it, and thinking before it, is ignored.

**Reward**: the share of calls that return the expected value, types compared exactly (a tuple comes out as a
list); of the listed and of the perturbed calls, whichever share is smaller. Right on all listed inputs and wrong on a
quarter or more of the others is 0, and so is one value for all inputs, or the input said back, unless that is right.
A call that raises fails alone; one that hangs or kills the process fails itself and those after it. Answers that
break the protocol (missing, doubled or unknown ids) score 0.

Decisions: functions come in families (see `code_families`); `split = "train"` draws from the seen
families, `"eval"` half from seen and half from held-out ones, tagged `seen_family` and `held_out_family`
(option `eval_on`: `mixed`, `held_out` or `seen`); no prompt is in both splits. Expected values never enter the sandbox.
How the verdict comes about: `code_verdict`.
Covered: functions of numbers, lists of numbers, strings. Not covered: classes, several files.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from burnish.core.errors import ConfigError
from burnish.core.seeds import derive
from burnish.core.types import Limits, Message, Split, Task, Verdict
from burnish.domains import Options, task_id
from burnish.domains.code_families import Family, Problem, draw
from burnish.domains.code_families_held_out import FAMILIES as HELD_OUT
from burnish.domains.code_families_held_out_more import FAMILIES as MORE_HELD_OUT
from burnish.domains.code_families_seen import FAMILIES as SEEN
from burnish.domains.code_families_seen_numbers import FAMILIES as SEEN_NUMBERS
from burnish.domains.code_families_seen_texts import FAMILIES as SEEN_TEXTS
from burnish.domains.code_verdict import JOB_LIMITS, code_task, read_truth, run_and_judge
from burnish.rewards.code_normal import code_key
from burnish.rewards.code_value import nothing
from burnish.rewards.thinking import after_thinking
from burnish.sandbox import Box

EVAL_FAMILIES: Mapping[str, tuple[Family, ...]] = {
    "held_out": HELD_OUT + MORE_HELD_OUT,
    "seen": SEEN + SEEN_NUMBERS + SEEN_TEXTS,
}
FAMILIES: Mapping[str, Family] = {family.name: family for some in EVAL_FAMILIES.values() for family in some}
EVAL_CHOICES = ("mixed", "held_out", "seen")
LONGEST_REPLY = 20_000

FENCED = re.compile(r"```[ \t]*+[\w+-]*+[ \t]*+\n(.*?)(?:^[ \t]*+```|\Z)", re.DOTALL | re.MULTILINE)
CODE_LINE = re.compile(r"(def |async def |class |import |from |@)")
INNER_LINE = re.compile(r"([ \t]|#|\)|\]|\}|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """Problems drawn without end from the families."""

    name: str = "code"
    executes_code: bool = True
    eval_on: str = "mixed"

    def size(self, split: Split) -> int | None:
        """Generated without end."""
        return None

    def task(self, split: Split, seed: int, index: int) -> Task:
        """Draw a family, then a problem of it."""
        rng = Random(derive(seed, self.name, split, index))
        standing = "seen" if split == "train" else self._standing(index)
        family = rng.choice(EVAL_FAMILIES[standing])
        problem = next(one for one in iter(partial(draw, family, rng), None) if split_of(prompt(one)) == split)
        return Task(
            id=task_id(self.name, split, seed, index),
            domain=self.name,
            messages=(Message(role="user", content=prompt(problem)),),
            truth={
                "function": problem.function,
                "shown": problem.example,
                "shown_value": problem.example_value,
                "calls": problem.calls,
                "expected": problem.expected,
                "family": family.name,
                "variant": problem.rule.variant,
                "constants": dict(problem.rule.constants),
            },
            gold=f"```python\n{problem.solution}\n```",
            limits=Limits(max_new_tokens=80, verify_wall_s=JOB_LIMITS.wall_s + 5),
            tags=(f"{standing}_family",),
            source=f"code/{family.name}",
        )

    def _standing(self, index: int) -> str:
        if self.eval_on == "mixed":
            return "held_out" if index % 2 == 0 else "seen"
        return self.eval_on

    async def verify(self, task: Task, reply: str, box: Box) -> Verdict:
        """Run the reply's function on the hidden inputs in the sandbox and compare here."""
        function, source = read_truth(task.truth).function, find_code(reply)
        if not re.search(rf"\b{function}\b", source):
            return nothing(f"no function {function!r} in the reply")
        return await run_and_judge(code_task(task, FAMILIES[str(task.truth["family"])]), source, box)

    def answer_key(self, task: Task, reply: str) -> str | None:
        """What the verdict depends on: the code alone, whatever cannot change its result left out."""
        function, source = read_truth(task.truth).function, find_code(reply)
        is_named = re.search(rf"\b{function}\b", source) is not None
        return f"{is_named} {code_key(source, positional_calls=True).key}"


def load(argument: str, options: Options) -> Code:
    """Open the domain; it takes no argument and one option, `eval_on`."""
    if argument:
        raise ConfigError(f"domain 'code' takes no argument; got {argument!r}; write domain = \"code\"")
    unknown = sorted(set(options) - {"eval_on"})
    if unknown:
        raise ConfigError(f"domain 'code': unknown option {unknown[0]!r}; known options: eval_on")
    eval_on = options.get("eval_on", "mixed")
    if eval_on not in EVAL_CHOICES:
        raise ConfigError(f"domain 'code': eval_on = {eval_on!r}; expected one of: {', '.join(EVAL_CHOICES)}")
    return Code(eval_on=str(eval_on))


def prompt(problem: Problem) -> str:
    """The question as the policy sees it."""
    shown = ", ".join(repr(value) for value in problem.example)
    return (
        f"Write a Python function `{problem.signature}` that {problem.ask}.\n"
        f"Example: {problem.function}({shown}) returns {problem.example_value!r}.\n"
        "Answer with the function only, in a Python code block."
    )


def split_of(text: str) -> Split:
    """The split that a prompt belongs to, so that no prompt of a seen family is in both; a quarter evaluates."""
    return "eval" if derive(0, "split of", text) % 4 == 0 else "train"


def find_code(reply: str) -> str:
    """Take the code out of a reply, its thinking left out; empty where there is none or the reply is far too long."""
    said = after_thinking(reply)
    if said is None or len(said) > LONGEST_REPLY:
        return ""
    fenced = FENCED.search(said)
    return fenced.group(1) if fenced else _bare_code(said.splitlines())


def _bare_code(lines: Sequence[str]) -> str:
    """The lines from the first that opens a function (or import) to the last that can belong to it."""
    start = next((number for number, line in enumerate(lines) if CODE_LINE.match(line)), len(lines))
    end = start
    while end < len(lines) and (CODE_LINE.match(lines[end]) or INNER_LINE.match(lines[end])):
        end += 1
    return "\n".join(lines[start:end])
