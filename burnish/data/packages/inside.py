"""What runs inside the box: a suite under coverage with one context a test, or a few tests for what they say.

Sent as text, so it imports nothing of `burnish`. It reads `{"modules", "paths", "ids", "most"}` and answers one JSON
value: `outcomes` by test id, `lines` (file, line, how many tests ran it, the numbers of some of them) and `said` (what
failing tests print) for the ids that were asked for. Without ids, all tests run, under coverage.
"""

import importlib
import json
import os
import random
import sys
from typing import Any

import pytest

LONGEST_SAID = 6_000


class Reporter:
    """A pytest plugin that notes outcomes and gives each test a coverage context of its own."""

    def __init__(self, cov: Any, wanted: set[str]) -> None:
        self._cov, self._wanted = cov, wanted
        self.outcomes: dict[str, str] = {}
        self.said: dict[str, str] = {}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Keep the wanted tests, if any are named."""
        if self._wanted:
            items[:] = [item for item in items if item.nodeid in self._wanted]

    def pytest_runtest_protocol(self, item: Any) -> None:
        """Begin a context."""
        if self._cov is not None:
            self._cov.switch_context(item.nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """A test passed if all its phases did."""
        before = self.outcomes.get(report.nodeid, "passed")
        is_plain = report.outcome == "passed" and not hasattr(report, "wasxfail")
        self.outcomes[report.nodeid] = before if is_plain else "failed" if report.failed else "skipped"
        if report.failed and report.nodeid in self._wanted:
            self.said[report.nodeid] = str(report.longreprtext)[:LONGEST_SAID]


def main() -> None:
    """Run, and write the answer."""
    order = json.load(sys.stdin)
    tree = os.getcwd()
    sys.path.insert(0, tree)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # what is installed here is not the package's
    cov = None if order["ids"] else _coverage(order["modules"])
    reporter = Reporter(cov, set(order["ids"]))
    options = ["-c", os.devnull, f"--rootdir={tree}", "-p", "no:cacheprovider", "-p", "no:doctest", "-q", "--tb=short"]
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    pytest.main([*options, *order["paths"]], plugins=[reporter])
    lines = _lines(cov, tree, list(reporter.outcomes), order["most"]) if cov is not None else []
    with os.fdopen(int(os.environ["BURNISH_ANSWER_FD"]), "w") as answer:
        json.dump({"outcomes": reporter.outcomes, "lines": lines, "said": reporter.said}, answer)


def _coverage(modules: list[str]) -> Any:
    cov = importlib.import_module("coverage").Coverage(
        data_file=None, config_file=False, source=modules, messages=False
    )
    cov.start()
    return cov


def _lines(cov: Any, tree: str, ids: list[str], most: int) -> list[Any]:
    cov.stop()
    data, numbers = cov.get_data(), {name: number for number, name in enumerate(ids)}
    found: list[Any] = []
    for path in sorted(data.measured_files()):
        for line, contexts in sorted(data.contexts_by_lineno(path).items()):
            tests = sorted(numbers[context] for context in contexts if context in numbers)
            some = sorted(random.Random(line).sample(tests, most)) if len(tests) > most else tests
            if tests:
                found.append([os.path.relpath(path, tree), line, len(tests), some])
    return found


if __name__ == "__main__":
    main()
