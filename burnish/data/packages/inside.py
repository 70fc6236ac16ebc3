"""What runs inside the box to survey a suite: all of it, under coverage, with one context a test.

Sent as text, so it imports nothing of `burnish`. It reads `{"modules", "paths", "most"}` and answers one JSON value:
`outcomes` and `seconds` by test id (of processor time, which a busy host does not stretch), and `lines` (file, line,
how many tests ran it, the numbers of some of them).
"""

import importlib
import json
import os
import random
import sys
import time
from typing import Any

import pytest


class Reporter:
    """A pytest plugin that notes outcomes and gives each test a coverage context of its own."""

    def __init__(self, cov: Any) -> None:
        self._cov, self._started = cov, 0.0
        self.outcomes: dict[str, str] = {}
        self.seconds: dict[str, float] = {}

    def pytest_runtest_protocol(self, item: Any) -> None:
        """Begin a context."""
        self._started = time.process_time()
        self._cov.switch_context(item.nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """A test passed if all its phases did."""
        before = self.outcomes.get(report.nodeid, "passed")
        is_plain = report.outcome == "passed" and not hasattr(report, "wasxfail")
        self.outcomes[report.nodeid] = before if is_plain else "failed" if report.failed else "skipped"
        self.seconds[report.nodeid] = time.process_time() - self._started


def main() -> None:
    """Run, and write the answer."""
    order = json.load(sys.stdin)
    tree = os.getcwd()
    sys.path.insert(0, tree)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # what is installed here is not the package's
    cov = importlib.import_module("coverage").Coverage(
        data_file=None, config_file=False, source=order["modules"], messages=False
    )
    cov.start()
    reporter = Reporter(cov)
    options = ["-c", os.devnull, f"--rootdir={tree}", "-p", "no:cacheprovider", "-p", "no:doctest", "-q", "--tb=no"]
    options.append("--continue-on-collection-errors")  # a file that wants what is not here has no stable tests
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    pytest.main([*options, *order["paths"]], plugins=[reporter])
    cov.stop()
    found = {"outcomes": reporter.outcomes, "seconds": reporter.seconds}
    with os.fdopen(int(os.environ["BURNISH_ANSWER_FD"]), "w") as answer:
        json.dump(found | {"lines": _lines(cov, tree, list(reporter.outcomes), order["most"])}, answer)


def _lines(cov: Any, tree: str, ids: list[str], most: int) -> list[Any]:
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
