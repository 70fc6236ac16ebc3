"""What runs inside the box to screen faults: a suite is collected once, and each fault lives in a fork of that.

Sent as text, so it imports nothing of `burnish`. It reads `{"paths", "faults"}` and answers one line of JSON a fault as
soon as it is known: `ending`, and `failing`: what each failing test says, by its id. A fault has `edits` (by file:
start, end and text, in bytes), `functions` (by file), `ids`, `most_failing` and `cpu_s`.

Decisions: a fault stands within a function's body, so it is planted by giving the function objects that are there the
code that the changed file compiles to; what ran at import ran without it. So this is a screen, and what it lets through
is confirmed by a run that imports the changed files. Before anything runs, code that compiles to what it was is the
`same`, and code that reads a name whose only assignment is gone is `trivial`.
Endings: `done`, `many` (more fail than may), `slow`, `died`, `same`, `trivial`, `unplanted` (no function object that
takes the code, or no code).
"""

import gc
import json
import math
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from types import CodeType, FunctionType
from typing import Any

import pytest

LONGEST_SAID = 4_000
MOST_TOLD = 8
"""Functions of which the first failing test tells with its source, which costs ten times what it costs to run."""
ROOM_BYTES = 512 << 20
PATIENCE = 20
"""Seconds of wall for each of processor time, after which a fork waits for something that does not come."""
Ranked = dict[str, list[CodeType]]
"""The functions of a file by their qualified name, in its order."""


class Screen:
    """A pytest plugin that runs a few tests for each fault in place of all tests once."""

    def __init__(self, order: Any, answer: Any, tree: str) -> None:
        self._faults, self._answer, self._tree = order["faults"], answer, tree
        self._failing: dict[str, str] = {}
        self._right: dict[str, tuple[bytes, Ranked]] = {}
        self._functions: dict[tuple[str, str, int], list[FunctionType]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> bool:
        """Try each fault in a fork, and answer."""
        self._functions = _live_functions(self._tree)
        gc.collect()
        gc.freeze()
        for fault in self._faults:
            for name in fault["edits"]:
                if name not in self._right:
                    path = os.path.join(self._tree, name)
                    text = _read(path)
                    self._right[name] = text, _ranked(compile(text, path, "exec", dont_inherit=True))
            wanted = set(fault["ids"])
            heard = self._in_fork(fault, [item for item in session.items if item.nodeid in wanted])
            for name in fault["edits"]:
                _write(os.path.join(self._tree, name), self._right[name][0])
            self._answer.write(json.dumps(heard) + "\n")
            self._answer.flush()
        return True

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note what fails; a skip or an expected failure is no pass."""
        if report.outcome != "passed" or hasattr(report, "wasxfail"):
            self._failing.setdefault(report.nodeid, str(report.longreprtext)[:LONGEST_SAID])

    def _in_fork(self, fault: Any, items: list[Any]) -> dict[str, Any]:
        read_end, write_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(read_end)
                os.setsid()
                _limit(fault["cpu_s"])
                heard = self._run(fault, items)
                _write_all(write_end, json.dumps(heard).encode() + b"\n")
            finally:  # whatever a fault makes of the runner, no fork goes on where the first process is
                os._exit(0)
        os.close(write_end)
        text = _listen(read_end, PATIENCE * fault["cpu_s"])
        os.close(read_end)
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if text.endswith(b"\n"):
            return json.loads(text)
        is_slow = os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGPROF, signal.SIGXCPU, signal.SIGKILL)
        return {"ending": "slow" if is_slow else "died", "failing": {}}

    def _run(self, fault: Any, items: list[Any]) -> dict[str, Any]:
        ending = self._plant(fault)
        if ending:
            return {"ending": ending, "failing": {}}
        for item, following in zip(items, [*items[1:], None], strict=True):
            told = {name.partition("[")[0] for name in self._failing}
            is_told = len(told) >= MOST_TOLD or item.nodeid.partition("[")[0] in told
            item.config.option.tbstyle = "value" if is_told else "short"
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if len(self._failing) > fault["most_failing"]:
                return {"ending": "many", "failing": {}}
        missing = set(fault["ids"]) - {item.nodeid for item in items}
        out_of_memory = any("MemoryError" in said for said in self._failing.values())
        failing = self._failing | dict.fromkeys(sorted(missing), "")
        return {"ending": "slow" if out_of_memory else "done", "failing": failing}

    def _plant(self, fault: Any) -> str:
        """Give the faulty functions their new code; a word for why that makes no fault to try."""
        is_same, is_planted = True, False
        for name, edits in fault["edits"].items():
            path = os.path.join(self._tree, name)
            right, old = self._right[name]
            wrong = _edited(right, edits)
            _write(path, wrong)
            try:
                new = _ranked(compile(wrong, path, "exec", dont_inherit=True))
            except SyntaxError:  # two faults beside each other
                return "unplanted"
            for before, after in _pairs(old, new, fault["functions"][name]):
                if _bare(before) == _bare(after):
                    continue
                is_same = False
                if _lost(before, after):
                    return "trivial"
                for function in self._functions.get((path, before.co_qualname, before.co_firstlineno), ()):
                    if len(function.__code__.co_freevars) == len(after.co_freevars):  # or it cannot take the code
                        function.__code__, is_planted = after, True
        return "same" if is_same else "" if is_planted else "unplanted"


def _pairs(old: Ranked, new: Ranked, names: list[str]) -> Iterator[tuple[CodeType, CodeType]]:
    """The code of functions and of those around them, before and after; equal names stand in the order of the file."""
    for qualname in _around(names):
        yield from zip(old.get(qualname, ()), new.get(qualname, ()), strict=False)


def _around(names: list[str]) -> list[str]:
    """The functions of these names and those around them."""
    found: dict[str, None] = {}
    for name in names:
        parts = name.split(".<locals>.")
        found |= dict.fromkeys(".<locals>.".join(parts[: number + 1]) for number in range(len(parts)))
    return list(found)


def _ranked(code: CodeType) -> Ranked:
    """The functions of a module by their name, in the order of the file."""
    found: Ranked = {}
    for each in sorted(_codes(code), key=lambda each: each.co_firstlineno):
        found.setdefault(each.co_qualname, []).append(each)
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _codes(each)


def _bare(code: CodeType) -> Any:
    """What code does, wherever it stands."""
    consts = tuple(_bare(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts)
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return code.co_code, code.co_exceptiontable, names, consts


def _lost(before: CodeType, after: CodeType) -> set[str]:
    """Names that were local, and are looked up outside now: the first run of such a line says all."""
    locals_before = {*before.co_varnames, *before.co_cellvars}
    return (locals_before & set(after.co_names)) - set(before.co_names) - {*after.co_varnames, *after.co_cellvars}


def _live_functions(tree: str) -> dict[tuple[str, str, int], list[FunctionType]]:
    found: dict[tuple[str, str, int], list[FunctionType]] = {}
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename.startswith(tree + os.sep):
            code = each.__code__
            found.setdefault((code.co_filename, code.co_qualname, code.co_firstlineno), []).append(each)
    return found


def _edited(text: bytes, edits: list[Any]) -> bytes:
    for start, end, after in sorted(edits, reverse=True):
        text = text[:start] + after.encode() + text[end:]
    return text


def _limit(cpu_s: float) -> None:
    """Limit a fork's processor time and memory."""
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + ROOM_BYTES, now + ROOM_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(cpu_s) + 1, math.ceil(cpu_s) + 2))  # where the timer is reset
    signal.setitimer(signal.ITIMER_PROF, cpu_s)


def _listen(fd: int, wall_s: float) -> bytes:
    """Read one line, for so long."""
    text, until = b"", time.monotonic() + wall_s
    while not text.endswith(b"\n"):
        if not select.select([fd], [], [], max(0.0, until - time.monotonic()))[0]:
            return b""
        part = os.read(fd, 1 << 16)
        if not part:
            return text
        text += part
    return text


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _write(path: str, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)


def _write_all(fd: int, text: bytes) -> None:
    while text:
        text = text[os.write(fd, text) :]


def main() -> None:
    """Collect the tests, and try the faults."""
    order = json.load(sys.stdin)
    tree = os.getcwd()
    sys.path.insert(0, tree)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # what is installed here is not the package's
    answer = os.fdopen(int(os.environ["BURNISH_ANSWER_FD"]), "w")
    options = ["-c", os.devnull, f"--rootdir={tree}", "-p", "no:cacheprovider", "-p", "no:doctest", "-q", "--tb=short"]
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    pytest.main([*options, *order["paths"]], plugins=[Screen(order, answer, tree)])


if __name__ == "__main__":
    main()
