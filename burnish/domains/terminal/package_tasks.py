"""A fault of a real package as a terminal task: what the agent finds, what it is told, what judges it, what solves it.

Decisions: the package lies in the agent's folder under one commit, made after the fault was planted, so no history
shows the code as it was. Half of the failing tests are hidden; the verdict runs all of them, and tests that pass, from
copies of its own. A task is of the split `eval` if its package or one of its kinds of fault is held out; its tags say
which.
Levels: 3 where the issue has what a test prints, 4 where it says what should hold, 5 where it is vague; one more for
several faults.
"""

import ast
from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from burnish.core.seeds import derive
from burnish.core.types import Split, Verdict
from burnish.data.mutations.edits import apply
from burnish.data.mutations.repair import Hunk, hunks
from burnish.data.packages.catalogue import TESTS, Tree
from burnish.data.packages.hidden import function_of, without
from burnish.data.packages.issue import FORMS, forms, issue
from burnish.data.packages.sites import HELD_OUT_KINDS
from burnish.data.packages.survey import RunTests
from burnish.data.packages.trial import Trial
from burnish.domains.terminal.history import START, commit
from burnish.domains.terminal.oracle import Calls, replace, shell, submit, view
from burnish.domains.terminal.spec import TerminalTask, TestsCheck
from burnish.rewards import code_tests
from burnish.rewards.process import Fault, Place
from burnish.sandbox import Box, ResourceLimits

RUN: Final = "python3 -m pytest -q --tb=short"
Repairs = Mapping[str, Sequence[Hunk]]
"""By file, the edits that undo the faults."""
NAMED: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def runner(tree: Tree, box: Box) -> RunTests:
    """Run a package's tests as its tasks' verdicts do."""

    async def run(files: Mapping[str, bytes], ids: Sequence[str], wall_s: float) -> Mapping[str, bool] | None:
        needed = {name.partition("::")[0] for name in ids}
        tests = {name: text for name, text in tree.tests.items() if name in needed or not _has_tests(name)}
        suite = code_tests.TestSuite(
            tests=tests, ids=ids, modules=tree.package.modules, trust="same_interpreter", has_part_per_test=True,
            data={name: text.encode() for name, text in tree.data.items()}, test_cpu_s=5.0, test_wall_s=60.0,
            limits=ResourceLimits(wall_s=wall_s, cpu_s=wall_s, memory_mb=1024, disk_mb=64, num_files=8192,
                                  num_processes=64, output_bytes=16 << 20),
        )  # fmt: skip
        own = {name: content for name, content in files.items() if not name.startswith(f"{TESTS}/")}
        return _passed(await code_tests.verify(own, suite, box), ids)

    return run


def split_of(tree: Tree, trial: Trial) -> Split:
    """Held out by package and by kind of fault."""
    return "eval" if tree.package.is_held_out or _held_out_kinds(trial) else "train"


def task_of(tree: Tree, trial: Trial, base: str) -> TerminalTask:
    """Make the task of a fault; `base` is the hash of the package's files as they lie in the store."""
    rng = Random(derive(0, "task of", trial.key))
    changed = _changed(tree, trial)
    repairs = {file: hunks(text, tree.sources[file]) for file, text in changed.items()}
    secret = _secret(repairs)
    form = rng.choice(forms(trial.said, secret))
    needed = {name.partition("::")[0] for name in (*trial.failing, *trial.passing)}
    package = tree.package
    return TerminalTask(
        family=f"package:{package.name}",
        level=3 + FORMS.index(form) + (len(trial.faults) > 1),
        instruction=issue(
            form, trial.key[:8], package.modules[0], trial.said, len(trial.shown), secret, f"{RUN} {TESTS}"
        ),
        files={**changed, **without(tree.tests, trial.hidden)},
        base=base,
        setup=(*START, commit("Import", 0)),
        protected=(f"{TESTS}/**",),
        check=TestsCheck(
            required=trial.failing,
            kept=trial.passing,
            tests={name: text for name, text in tree.tests.items() if name in needed or not _has_tests(name)},
            modules=tuple(package.modules),
            data=tree.data,
            test_cpu_s=5.0,
            test_wall_s=30.0,
        ),
        fault=_fault(trial, changed, repairs),
        oracle=_oracle(trial, repairs),
        max_steps=30,
        source=package.source,
        tags=_tags(tree, trial, form),
    )


def _changed(tree: Tree, trial: Trial) -> dict[str, str]:
    """The files with the faults in them."""
    sources = tree.sources
    return {
        file: apply(sources[file], [edit for fault in trial.faults if fault.file == file for edit in fault.edits])
        for file in sorted({fault.file for fault in trial.faults})
    }


def _secret(repairs: Repairs) -> set[str]:
    """Lines that must not be told: those that the faults changed, as they are and as they were."""
    every = [hunk for some in repairs.values() for hunk in some]
    lines = [line.strip() for hunk in every for text in (hunk.old, hunk.new) for line in text.splitlines()]
    return {line for line in lines if len(line) > 5}


def _fault(trial: Trial, changed: Mapping[str, str], repairs: Repairs) -> Fault:
    places = [_place(fault.file, changed[fault.file], fault.function) for fault in trial.faults]
    return Fault(
        places=tuple(dict.fromkeys(places)),
        failing=frozenset(trial.shown),
        num_lines=sum(hunk.num_lines for some in repairs.values() for hunk in some),
    )


def _place(file: str, source: str, function: str) -> Place:
    """The lines of a function in the file as the agent finds it."""
    node: ast.AST = ast.parse(source)
    for name in function.split("."):
        if name != "<locals>":
            node = next(each for each in ast.walk(node) if isinstance(each, NAMED) and each.name == name)
    assert isinstance(node, NAMED) and node.end_lineno is not None
    return Place(path=file, first_line=node.lineno, last_line=node.end_lineno)


def _oracle(trial: Trial, repairs: Repairs) -> Calls:
    """Reproduce, locate, edit, test, submit."""
    tests = " ".join(dict.fromkeys(f"'{function_of(name)}'" for name in trial.shown[:2])) or TESTS
    places = dict.fromkeys((fault.file, fault.function.rpartition(".")[2]) for fault in trial.faults)
    calls = [shell(f"{RUN} {tests} 2>&1 | tail -n 30")]
    calls += [shell(f"grep -n 'def {function}' {file}") for file, function in places]
    for file, some in repairs.items():
        for hunk in some[::-1]:
            calls.append(view(file, max(1, hunk.first_line - 8), hunk.last_line + 8))
            calls.append(replace(file, hunk.old, hunk.new))
    return (*calls, shell(f"{RUN} {tests} 2>&1 | tail -n 5"), submit())


def _tags(tree: Tree, trial: Trial, form: str) -> tuple[str, ...]:
    kinds = tuple(dict.fromkeys(fault.kind for fault in trial.faults))
    held_out = ("held_out_package",) if tree.package.is_held_out else ()
    return (form, *kinds, *held_out, *(("held_out_kind",) if _held_out_kinds(trial) else ()))


def _held_out_kinds(trial: Trial) -> frozenset[str]:
    return HELD_OUT_KINDS & {fault.kind for fault in trial.faults}


def _has_tests(name: str) -> bool:
    """Whether a file of the suite holds tests, and not what tests use."""
    last = name.rpartition("/")[2]
    return last.startswith("test_") or last.endswith("_test.py")


def _passed(verdict: Verdict, ids: Sequence[str]) -> Mapping[str, bool] | None:
    if verdict.kind != "scored" or not verdict.parts.get("reported"):
        return None
    return {name: bool(verdict.parts[f"test {name}"]) for name in ids}
