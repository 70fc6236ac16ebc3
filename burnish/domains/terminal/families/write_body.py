"""A function that was never written: its docstring says what it does (levels 2 with one function, 3 with others)."""

from random import Random

from burnish.domains.code_families import Problem
from burnish.domains.terminal.families.fix_module import TEST
from burnish.domains.terminal.oracle import replace, shell, submit, view
from burnish.domains.terminal.planted import MODULES, module_text, plain, test_name, tests_text
from burnish.domains.terminal.spec import TerminalTask, TestsCheck
from burnish.rewards.process import Fault, Place

LEVELS = (2, 3)
MISSING = "    raise NotImplementedError"


def make(rng: Random, level: int) -> TerminalTask:
    """Draw a function, take its body, and leave what it promises."""
    name = rng.choice(MODULES)
    problem = plain(rng, ())
    others = [plain(rng, (problem.function,))] if level == 3 else []
    head, body = problem.solution.split("\n", 1)
    lines = [head, f'    """It {problem.ask}."""', MISSING]
    parts = [*(other.solution for other in others), "\n".join(lines)]
    text = module_text(parts)
    last = text.count("\n")
    ids = [f"test_{name}.py::{test_name(problem, number)}" for number in range(8)]
    path = f"{name}.py"
    shown = [(problem, range(2)), *((other, range(2)) for other in others)]
    reproduce = shell(f"cat {path}; python3 -m pytest -q --tb=no") if level == 2 else shell(TEST)
    looks = [] if level == 2 else [view(path)]
    return TerminalTask(
        family="write_body",
        level=level,
        instruction=rng.choice(
            (
                f"`{problem.signature}` in {path} is not written yet. Write it; its docstring says what it does.",
                f"Implement `{problem.function}` in {path} as its docstring says.",
            )
        ),
        files={path: text, f"test_{name}.py": tests_text(name, shown)},
        protected=(f"test_{name}.py",),
        check=_check(name, problem, others),
        fault=Fault(
            places=(Place(path=path, first_line=last - 2, last_line=last),),
            failing=frozenset(ids[:2]),
            num_lines=body.count("\n") + 1,
        ),
        oracle=(
            reproduce,
            *looks,
            replace(path, f"{MISSING}\n", f"{body}\n"),
            *([] if level == 2 else [shell(TEST)]),
            submit(),
        ),
        max_steps=10,
        source="write_body",
        tags=("removed_body",),
    )


def _check(name: str, problem: Problem, others: list[Problem]) -> TestsCheck:
    return TestsCheck(
        required=tuple(f"test_{name}.py::{test_name(problem, number)}" for number in range(8)),
        kept=tuple(f"test_{name}.py::{test_name(other, number)}" for other in others for number in range(8)),
        tests={f"test_{name}.py": tests_text(name, [(one, range(8)) for one in (problem, *others)])},
        modules=(name,),
    )
