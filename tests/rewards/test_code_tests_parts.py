"""The parts of code by tests that need no sandbox: what crosses, what is equal, what a line of the worker is worth."""

import json
import unittest
from collections import Counter
from typing import Any

import pytest

from burnish.rewards.code_tests_codec import BadMessage, Handle, decode, encode
from burnish.rewards.code_tests_integrity import Watch
from burnish.rewards.code_tests_loader import compile_tests, equal, module_name
from burnish.rewards.code_tests_reports import judge
from burnish.sandbox import Outcome


class AlwaysEqual:
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = object.__hash__


class LyingInt(int):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


@pytest.mark.parametrize(
    ("left", "right", "is_equal"),
    [
        (3, 3, True),
        (3, 3.0, True),
        (True, 1, True),
        (3, AlwaysEqual(), False),
        (AlwaysEqual(), 3, False),
        (LyingInt(-1), 9, False),
        (LyingInt(9), 9, True),
        ([1, AlwaysEqual()], [1, 2], False),
        ({"a": AlwaysEqual()}, {"a": 2}, False),
        ({AlwaysEqual()}, {3}, False),
        ((1, 2), [1, 2], False),
        (Counter("aab"), {"a": 2, "b": 1}, True),
        (AlwaysEqual(), AlwaysEqual(), True),  # two objects of the tested code: its own word, which this cannot judge
    ],
)
def test_the_plain_side_decides_a_comparison(left: object, right: object, is_equal: bool) -> None:
    assert equal(left, right) is is_equal


@pytest.mark.parametrize(
    "value", [None, True, 10**50, 1.5, "\ud800é", b"\x00", 1j, [1, (2, {3})], {(1, 2): {"a": [None]}}]
)
def test_plain_values_cross_with_their_types(value: object) -> None:
    crossed = decode(json.loads(json.dumps(encode(value, lambda one: pytest.fail("not plain")))), lambda handle: handle)
    assert crossed == value and type(crossed) is type(value)


def test_a_lying_int_does_not_cross_as_a_value() -> None:
    crossed = decode(encode(LyingInt(3), lambda one: Handle(5, "object", "LyingInt", ())), lambda handle: handle)
    assert crossed == Handle(5, "object", "LyingInt", ())


@pytest.mark.parametrize(
    "data", [[1], {}, {"list": 3}, {"set": [{"list": []}]}, {"handle": [1, 2]}, {"a": 1, "b": 2}, {"bytes": "zz"}]
)
def test_what_is_no_value_is_refused(data: Any) -> None:
    with pytest.raises(BadMessage):
        decode(data, lambda handle: handle)


@pytest.mark.parametrize(
    ("file", "name"), [("test_a.py", "test_a"), ("tests/unit/test_a.py", "tests.unit.test_a"), ("t/__init__.py", "t")]
)
def test_a_test_file_is_imported_under_its_path(file: str, name: str) -> None:
    assert module_name(file) == name


def test_a_changed_assertion_is_noticed() -> None:
    watch = Watch()
    kept = unittest.TestCase.assertEqual
    assert watch.changed() == ""
    unittest.TestCase.assertEqual = lambda self, *rest: None  # type: ignore[method-assign] # what an attack does
    try:
        assert "assertEqual" in watch.changed()
    finally:
        unittest.TestCase.assertEqual = kept  # type: ignore[method-assign]


def test_tests_that_do_not_compile_say_so() -> None:
    with pytest.raises(SyntaxError):
        compile_tests({"test_a.py": "def test_(:"})


def said(*rows: dict[str, object], ending: Any = "exited", exit_code: int | None = 0, tail: bytes = b"") -> Outcome:
    answer = b"".join(json.dumps({"token": "t", **row}).encode() + b"\n" for row in rows) + tail
    return Outcome(ending=ending, exit_code=exit_code, stdout=b"", stderr=b"oops", answer=answer, wall_s=0.1)


PASS_A = {"id": "a", "outcome": "passed", "message": ""}
END = {"end": True}


@pytest.mark.parametrize("word", ["failed", "skipped", "xfailed", "died", "timed_out", "tampered", "PASSED"])
def test_only_passed_counts(word: str) -> None:
    verdict = judge(said(PASS_A, {"id": "b", "outcome": word, "message": "m"}, END), "t", ["a", "b"], "separate")
    assert verdict.score == 0.5 and f"b: {word}" in verdict.evidence


def test_a_missing_report_is_a_failed_test() -> None:
    verdict = judge(said(PASS_A, END), "t", ["a", "b"], "separate")
    assert verdict.score == 0.5 and verdict.parts["reported"] == 0.5


def test_all_or_nothing_pays_nothing_for_a_half() -> None:
    verdict = judge(said(PASS_A, END), "t", ["a", "b"], "separate", is_all_or_nothing=True)
    assert verdict.score == 0.0 and verdict.parts["passed"] == 0.5


def test_each_test_can_be_a_part() -> None:
    parts = judge(said(PASS_A, END), "t", ["a", "b"], "separate", has_part_per_test=True).parts
    assert parts["test a"] == 1.0 and parts["test b"] == 0.0


@pytest.mark.parametrize(
    "rows",
    [
        (PASS_A, PASS_A, END),
        (PASS_A, {"id": "c", "outcome": "passed", "message": ""}, END),
        (PASS_A, {"token": "x", **END}),
        (PASS_A, {"note": "wrote on the channel", "tampered": True}, END),
        (PASS_A, {"other": 1}, END),
    ],
    ids=["twice", "unknown id", "wrong token", "the worker says so", "another form"],
)
def test_tampering_takes_the_whole_score(rows: tuple[dict[str, object], ...]) -> None:
    verdict = judge(said(*rows), "t", ["a"], "same_interpreter")
    assert verdict.score == 0.0 and verdict.parts["tampered"] == 1.0


def test_a_line_that_is_not_ours_takes_the_whole_score() -> None:
    assert judge(said(PASS_A, tail=b"passed\n"), "t", ["a"], "separate").parts["tampered"] == 1.0


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        (said({"fault": "the tests do not compile"}), "unscorable"),
        (said(PASS_A, exit_code=1), "infrastructure_error"),
        (said(PASS_A, ending="timed_out", exit_code=None), "scored"),
        (said(PASS_A, ending="killed", exit_code=None), "scored"),
    ],
    ids=["the task's fault", "the worker's fault", "out of time", "killed from within"],
)
def test_who_is_at_fault_decides_the_kind(outcome: Outcome, kind: str) -> None:
    assert judge(outcome, "t", ["a", "b"], "separate").kind == kind


def test_the_grade_of_trust_is_in_the_verdict() -> None:
    verdict = judge(said(PASS_A, END), "t", ["a"], "same_interpreter")
    assert verdict.parts["separate"] == 0.0 and verdict.evidence.startswith("[same_interpreter]")
