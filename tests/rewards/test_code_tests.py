"""Code by tests, end to end in the sandbox: what honest code gets, and what each way to fail costs."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from burnish.core.errors import ConfigError
from burnish.core.types import Verdict
from burnish.rewards.code_tests import TestSuite, check, verify
from burnish.sandbox import ResourceLimits, missing, open_box

TESTS = """
import pytest
from solution import Stack, add, boom, sort_it, MyError

@pytest.mark.parametrize("a,b,total", [(1, 2, 3), (-1, 5, 4)])
def test_add(a, b, total):
    assert add(a, b) == total

def test_stack():
    stack = Stack()
    stack.push(3)
    assert len(stack) == 1 and stack.pop() == 3 and isinstance(stack, Stack)

def test_in_place():
    values = [3, 1, 2]
    sort_it(values)
    assert values == [1, 2, 3]

def test_raises():
    with pytest.raises(MyError):
        boom()

@pytest.mark.skip
def test_skipped():
    pass
"""
SOLUTION = """
class MyError(ValueError):
    pass

class Stack(list):
    push = list.append

def add(a, b):
    return a + b

def sort_it(values):
    values.sort()

def boom():
    raise MyError("no")
"""
IDS = tuple(f"test_it.py::test_{name}" for name in ("add[1-2-3]", "add[-1-5-4]", "stack", "in_place", "raises"))
LIMITS = ResourceLimits(wall_s=90.0, cpu_s=20.0, disk_mb=32, num_files=4096, num_processes=16)
GRADES = ("separate", "same_interpreter")


def suite(**changed: Any) -> TestSuite:
    rest: dict[str, Any] = {
        "tests": {"test_it.py": TESTS}, "ids": IDS, "modules": ("solution",), "trust": "separate",
        "limits": LIMITS, "test_wall_s": 60.0,
    }  # fmt: skip
    return TestSuite(**(rest | changed))


@pytest.fixture(scope="module")
def judged() -> Iterator[Any]:
    if missing():
        pytest.skip("this host cannot isolate")
    with asyncio.Runner() as runner:
        opened = open_box(num_workers=1)
        box = runner.run(opened.__aenter__())

        def judge(solution: str | Mapping[str, bytes], **changed: Any) -> Verdict:
            tree = {"solution.py": solution.encode()} if isinstance(solution, str) else solution
            return runner.run(verify(tree, suite(**changed), box))

        yield judge
        runner.run(opened.__aexit__(None, None, None))


@pytest.mark.parametrize("trust", GRADES)
def test_honest_code_passes_and_a_skip_is_no_pass(judged: Any, trust: str) -> None:
    verdict = judged(SOLUTION, trust=trust, ids=(*IDS, "test_it.py::test_skipped"))
    assert verdict.parts["passed"] == pytest.approx(5 / 6)
    assert "test_skipped: skipped" in verdict.evidence and verdict.parts["separate"] == (trust == "separate")


@pytest.mark.parametrize("trust", GRADES)
def test_a_function_that_ends_its_process_costs_its_own_test(judged: Any, trust: str) -> None:
    ended = SOLUTION.replace("values.sort()", "import os; os._exit(0)")
    verdict = judged(ended, trust=trust)
    assert verdict.score == pytest.approx(4 / 5) and "test_in_place" in verdict.evidence


@pytest.mark.slow
@pytest.mark.parametrize("trust", GRADES)
def test_a_hang_costs_its_own_test(judged: Any, trust: str) -> None:
    hanging = SOLUTION.replace("values.sort()", "\n    while True: pass")
    assert judged(hanging, trust=trust, test_cpu_s=0.3).score == pytest.approx(4 / 5)


def test_tests_with_a_conftest_a_helper_and_data_run(judged: Any) -> None:
    tests = {
        "tests/conftest.py": "import pytest\n@pytest.fixture\ndef two(): return 2\n",
        "tests/helper.py": "THREE = 3\n",
        "tests/test_x.py": "from pathlib import Path\nfrom tests.helper import THREE\nfrom solution import add\n"
        "def test_x(two):\n    assert add(two, THREE) == int((Path(__file__).parent / 'five.txt').read_text())\n",
    }
    data = {"tests/five.txt": b"5"}
    verdict = judged(SOLUTION, tests=tests, data=data, ids=("tests/test_x.py::test_x",))
    assert verdict.score == 1.0, verdict.evidence


@pytest.mark.parametrize("trust", GRADES)
def test_unittest_runs_without_pytest(judged: Any, trust: str) -> None:
    tests = "import unittest\nfrom solution import add\nclass T(unittest.TestCase):\n"
    tests += (
        "    def test_a(self): self.assertEqual(add(1, 2), 3)\n    def test_b(self): self.assertEqual(add(1, 2), 4)\n"
    )
    tests += "    @unittest.expectedFailure\n    def test_c(self): self.assertEqual(add(1, 2), 4)\n"
    ids = tuple(f"test_u.T.test_{name}" for name in "abc")
    verdict = judged(SOLUTION, tests={"test_u.py": tests}, ids=ids, framework="unittest", trust=trust)
    assert verdict.score == pytest.approx(1 / 3) and "xfailed" in verdict.evidence


@pytest.mark.parametrize("trust", GRADES)
def test_pytest_runs_cases_of_unittest(judged: Any, trust: str) -> None:
    tests = "import unittest\nfrom solution import add\nclass TestAdd(unittest.TestCase):\n"
    tests += (
        "    def test_a(self): self.assertEqual(add(1, 2), 3)\n    def test_b(self): self.assertEqual(add(1, 2), 4)\n"
    )
    verdict = judged(
        SOLUTION, tests={"test_u.py": tests}, ids=[f"test_u.py::TestAdd::test_{n}" for n in "ab"], trust=trust
    )
    assert verdict.score == 0.5 and "tampered" not in verdict.evidence, verdict.evidence


def test_a_case_of_unittest_that_was_changed_is_tampered_with(judged: Any) -> None:
    code = SOLUTION + "import sys\n"
    code += "def add(a, b):\n    sys.modules['test_u'].TestAdd.test_a = lambda self: None\n    return 3\n"
    tests = "import unittest\nfrom solution import add\nclass TestAdd(unittest.TestCase):\n"
    tests += "    def test_a(self): self.assertEqual(add(1, 2), 3)\n"
    verdict = judged(code, tests={"test_u.py": tests}, ids=("test_u.py::TestAdd::test_a",), trust="same_interpreter")
    assert verdict.score == 0.0 and "tampered" in verdict.evidence, verdict.evidence


def test_two_objects_cannot_be_compared_at_the_separate_grade(judged: Any) -> None:
    tests = "from solution import Stack\ndef test_eq(): assert Stack() == Stack()\n"
    verdict = judged(SOLUTION, tests={"test_e.py": tests}, ids=("test_e.py::test_eq",))
    assert verdict.score == 0.0 and "NotProvable" in verdict.evidence


@pytest.mark.parametrize("claim", ["abs(add(1, 2) - 3) < 1e-9", "3 in add(1, 2)", "add(1, 2) >= 3", "3 == add(1, 2)"])
def test_an_agreeable_object_decides_nothing_at_the_separate_grade(judged: Any, claim: str) -> None:
    agreeable = "class Yes:\n    __eq__ = __ge__ = __le__ = __contains__ = lambda self, other: True\n"
    agreeable += "    __sub__ = __rsub__ = lambda self, other: 0.0\ndef add(a, b): return Yes()\n"
    tests = f"from solution import add\ndef test_claim(): assert {claim}\n"
    assert judged(agreeable, tests={"test_c.py": tests}, ids=("test_c.py::test_claim",)).score == 0.0


def test_a_suite_that_does_not_compile_is_unscorable(judged: Any) -> None:
    assert judged(SOLUTION, tests={"test_it.py": "def"}).kind == "unscorable"


@pytest.mark.parametrize(
    "changed", [{"ids": ()}, {"ids": ("a", "a")}, {"modules": ()}, {"tests": {"../x.py": ""}}, {"data": {"/x": b""}}]
)
def test_a_suite_that_cannot_be_judged_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        check(suite(**changed))
