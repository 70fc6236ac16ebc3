"""Run the hidden tests with unittest alone, and say of each when it starts and what came of it.

A test passed if it ended once, by success: a skip, an expected failure or a failed subtest is none. ids are dotted
names. Under a `Watch`, `assertEqual` compares as hardened asserts do.
"""

import importlib
import io
import sys
import unittest
from collections.abc import Iterator
from typing import Any

from burnish.rewards.code_tests_integrity import Watch
from burnish.rewards.code_tests_loader import TestModules, equal, module_name
from burnish.rewards.code_tests_session import LONGEST_MESSAGE, Emit, Plan


def run(plan: Plan, emit: Emit) -> None:
    """Run the wanted tests with unittest alone."""
    sys.meta_path.insert(0, TestModules(plan.codes, plan.folder))
    watch = None
    if plan.is_watched:
        _harden_unittest()
        watch = Watch()
    wanted = frozenset(plan.wanted)
    for name in plan.codes:
        try:
            tests = unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(module_name(name)))
        except BaseException as error:  # noqa: BLE001 - the tested code runs while it is imported
            emit.note(f"{name}: {type(error).__name__}: {error}"[:LONGEST_MESSAGE])
            continue
        suite = unittest.TestSuite(test for test in _flat(tests) if test.id() in wanted)
        suite.run(_UnittestResult(emit, watch))


def _flat(suite: Any) -> Iterator[unittest.TestCase]:
    for one in suite:
        if isinstance(one, unittest.TestCase):
            yield one
        else:
            yield from _flat(one)


def _harden_unittest() -> None:
    """Let `assertEqual` compare as hardened asserts do."""

    def base_assert_equal(self: unittest.TestCase, first: object, second: object, msg: str | None = None) -> None:
        if not equal(first, second):
            raise self.failureException(self._formatMessage(msg, f"{first!r:.80} != {second!r:.80}"))

    unittest.TestCase._baseAssertEqual = base_assert_equal  # type: ignore[attr-defined] # what assertEqual ends in


class _UnittestResult(unittest.TestResult):
    def __init__(self, emit: Emit, watch: Watch | None) -> None:
        super().__init__(io.StringIO())
        self._emit, self._watch = emit, watch
        self._said: list[tuple[str, str]] = []

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802 - unittest's own name
        self._said.clear()
        self._emit.start(test.id())

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        outcome, message = next((one for one in self._said if one[0] != "passed"), None) or (
            self._said[0] if len(self._said) == 1 else ("tampered", f"it ended {len(self._said)} times")
        )
        changed = self._watch.changed() if self._watch else ""
        if changed:
            outcome, message = "tampered", f"{changed} was changed"
        self._emit.report(test.id(), outcome, message)

    def addSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802
        self._said.append(("passed", ""))

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802
        self._said.append(("failed", f"{err[0].__name__}: {err[1]}"[:LONGEST_MESSAGE]))

    addFailure = addError

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
        if err is not None:
            self.addError(test, err)

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
        self._said.append(("skipped", reason[:LONGEST_MESSAGE]))

    def addExpectedFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        self._said.append(("xfailed", ""))

    def addUnexpectedSuccess(self, test: Any) -> None:  # noqa: N802
        self._said.append(("failed", "passed where a failure was expected"))
