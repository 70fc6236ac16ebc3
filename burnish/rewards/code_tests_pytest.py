"""Run the hidden tests with pytest, and say of each when it starts and what came of it.

A test passed if its setup, call and teardown all did, without skip or expected failure. ids are node ids.

Decisions: `conftest.py` files of the tests are plugins for the whole run, wherever they lie. pytest wants files, so
empty ones stand in for the test modules. Output is not captured: it goes nowhere.
"""

import importlib
import os
import sys
from collections.abc import Generator, Sequence
from typing import Any, Final

import pytest
from _pytest.unittest import TestCaseFunction

from burnish.rewards.code_tests_integrity import Watch
from burnish.rewards.code_tests_loader import CHECK, EQUAL, TestModules, module_name
from burnish.rewards.code_tests_session import LONGEST_MESSAGE, Emit, Plan

UNUSED_PLUGINS: Final = (
    "cacheprovider pastebin junitxml doctest stepwise setuponly setupplan faulthandler unraisableexception "
    "threadexception legacypath"
).split()


def run(plan: Plan, emit: Emit) -> None:
    """Run the wanted tests with pytest."""
    sys.meta_path.insert(0, TestModules(plan.codes, plan.folder))
    files = [name for name in plan.codes if any(one.startswith(f"{name}::") for one in plan.wanted)]
    arguments = ["-c", os.devnull, f"--rootdir={plan.folder}", f"--confcutdir={plan.folder}", "--noconftest"]
    arguments += [
        "--capture=no",
        "--assert=plain",
        "--tb=line",
        f"--basetemp={plan.folder}/tmp",
        "-q",
        "--no-header",
        "--no-summary",
        "-p",
        "no:terminalreporter",
    ]
    for name in UNUSED_PLUGINS:
        arguments += ["-p", f"no:{name}"]
    for name in plan.plugins:
        arguments += ["-p", name]
    conftests = [name for name in plan.codes if os.path.basename(name) == "conftest.py"]
    plugins = [_PytestReporter(plan, emit, [module_name(name) for name in conftests])]
    pytest.main([*arguments, *(os.path.join(plan.folder, name) for name in files)], plugins=plugins)


class _MemoryModule(pytest.Module):
    def _getobj(self) -> Any:
        return importlib.import_module(module_name(os.path.relpath(self.path, self.config.rootpath)))


class _PytestReporter:
    """A plugin that decides nothing but what a test's own phases said."""

    def __init__(self, plan: Plan, emit: Emit, conftests: Sequence[str]) -> None:
        self._wanted, self._emit, self._conftests = frozenset(plan.wanted), emit, conftests
        self._is_watched = plan.is_watched
        self._watch: Watch | None = None
        self._phases: list[tuple[str, str, str]] = []
        self._parts: dict[str, tuple[object, ...]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> None:
        """Load conftests, the first that may import the tested code."""
        if self._is_watched:
            self._watch = Watch(vars(session.config.hook).values())
        for name in self._conftests:
            session.config.pluginmanager.register(importlib.import_module(name), name)
        if self._watch and self._conftests:
            tampered = self._watch.changed()
            self._watch = Watch(vars(session.config.hook).values())
            if tampered and not tampered.startswith("the hook"):
                self._emit.note(f"tampered with {tampered} while being imported")
                pytest.exit("tampered")

    def pytest_pycollect_makemodule(self, module_path: Any, parent: Any) -> _MemoryModule:
        """Take the module out of memory; the file is an empty stand-in."""
        return _MemoryModule.from_parent(parent, path=module_path)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Say why a file could not be collected."""
        if report.failed:
            self._emit.note(_message(report))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the wanted ones."""
        items[:] = [item for item in items if item.nodeid in self._wanted]
        self._parts = {item.nodeid: _parts_of(item) for item in items}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Say that a test starts, and after its teardown what came of it."""
        self._phases.clear()
        self._emit.start(item.nodeid)
        result = yield
        outcome, message = _of_phases(self._phases)
        changed = self._watch.changed() if self._watch else ""
        if not changed and any(
            now is not then for now, then in zip(_parts_of(item), self._parts[item.nodeid], strict=True)
        ):
            changed = "the test function"
        if changed:
            outcome, message = "tampered", f"{changed} was changed"
        self._emit.report(item.nodeid, outcome, message)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Gather the phases."""
        outcome = "xfailed" if hasattr(report, "wasxfail") else report.outcome
        self._phases.append((report.when or "", outcome, _message(report)))


def _parts_of(item: Any) -> tuple[object, ...]:
    """What must not change between collection and the end of a test: its function and what its asserts call."""
    function = getattr(item, "_obj", None)
    if isinstance(item, TestCaseFunction):  # it has an object only while it runs, of what its class has by its name
        function = getattr(item.cls, item.name, None)
    space = vars(item.module) if isinstance(item, pytest.Function) else {}
    function = getattr(function, "__func__", function)
    return function, getattr(function, "__code__", None), space.get(EQUAL), space.get(CHECK)


def _of_phases(phases: Sequence[tuple[str, str, str]]) -> tuple[str, str]:
    for _, outcome, message in phases:
        if outcome != "passed":
            return outcome, message
    if [when for when, _, _ in phases] != ["setup", "call", "teardown"]:
        return "tampered", f"its phases were {[when for when, _, _ in phases]}"
    return "passed", ""


def _message(report: Any) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr or "")
    return text.strip()[:LONGEST_MESSAGE]
