"""A tree of files against what it should be."""

import hashlib

import pytest

from burnish.rewards.end_state import ExpectedFile, judge

HASH = hashlib.sha256(b"data").hexdigest().encode()


@pytest.mark.parametrize(
    ("way", "expected", "content", "right"),
    [
        ("bytes", b"a\n", b"a\n", True),
        ("bytes", b"a\n", b"a", False),
        ("text", b"a\nb", b"a  \r\nb\n\n", True),
        ("text", b"a\nb", b"\xef\xbb\xbfa\nb", True),
        ("text", b"a b", b"a  b", False),
        ("text", "é".encode(), "e\u0301".encode(), True),
        ("text", b"a", b"a\xff", False),
        ("json", b'{"a": 1, "b": [2]}', b'{ "b":[2], "a":1 }', True),
        ("json", b'{"a": 1}', b'{"a": true}', False),
        ("json", b'{"a": 1}', b'{"a": 2, "a": 1}', False),
        ("json", b'{"a": 1}', b'{"a": 1} {}', False),
        ("json", b"[1]", b"[" * 100_000, False),
        ("json", b"[1]", b"[" + b"9" * 100_000 + b"]", False),
        ("json", b"[1]", b"[1e400]", False),
        ("json", b"[1]", b"NaN", False),
        ("json", b"[1]", b"\xff", False),
        ("sha256", HASH, b"data", True),
        ("sha256", HASH, b"data ", False),
        ("sha256", HASH, HASH, False),
        ("absent", b"", b"", False),
    ],
)
def test_each_way_of_comparing(way, expected, content, right) -> None:
    verdict = judge({"f": content}, [ExpectedFile(name="f", way=way, content=expected)])
    assert (verdict.kind, verdict.score) == ("scored", float(right))


TWO = [ExpectedFile(name="a", content=b"1", weight=3), ExpectedFile(name="b", content=b"2")]


def test_the_score_is_the_weighted_share_of_right_files() -> None:
    verdict = judge({"a": b"1", "b": b"x"}, TWO)
    assert (verdict.score, verdict.parts["file:a"], verdict.parts["file:b"]) == (0.75, 1, 0)
    assert judge({"a": b"1", "b": b"x"}, TWO, is_all_or_nothing=True).score == 0
    assert judge({"a": b"1", "b": b"2"}, TWO, is_all_or_nothing=True).score == 1


def test_a_missing_or_refused_file_is_wrong_and_says_why() -> None:
    verdict = judge({"a": b"1"}, TWO, refused={"b": "is a link"})
    assert verdict.score == 0.75 and "b: is a link" in verdict.evidence
    assert "b: missing" in judge({"a": b"1"}, TWO).evidence


def test_a_file_that_should_be_gone_is_right_when_it_is() -> None:
    gone = [ExpectedFile(name="old", way="absent")]
    assert judge({}, gone).score == 1
    assert judge({}, gone, refused={"old": "is a link"}).score == 0


def test_other_files_cost_only_where_the_task_says_so() -> None:
    files = {"a": b"1", "b": b"2", "extra": b""}
    assert judge(files, TWO).score == 1
    assert judge(files, TWO, allows_others=False).score == pytest.approx(4 / 5)


@pytest.mark.parametrize(
    "expected",
    [
        [],
        [ExpectedFile(name="f", way="json", content=b"{")],
        [ExpectedFile(name="f", way="sha256", content=b"abc")],
        [ExpectedFile(name="f", weight=float("nan"))],
        [ExpectedFile(name="f", weight=-1)],
    ],
)
def test_a_truth_that_cannot_be_met_is_unscorable(expected) -> None:
    assert judge({"f": b"{"}, expected).kind == "unscorable"


def test_a_flood_of_files_hides_none_that_should_be_gone_or_was_not_asked_for() -> None:
    gone = [ExpectedFile(name="old", way="absent")]
    assert judge({}, gone, is_whole=False).score == 0
    made = [ExpectedFile(name="new", content=b"1")]
    assert judge({"new": b"1"}, made, is_whole=False).score == 1
    assert judge({"new": b"1"}, made, is_whole=False, allows_others=False).score == 0.5
