"""Calls against what a BFCL item allows: right where the package's own matcher goes wrong, and the other way."""

import asyncio
import json

import pytest

from burnish.core.errors import ConfigError
from burnish.domains import bfcl
from burnish.domains.bfcl_matching import plain
from tests.domains.test_domain_contract import EXTERNAL

OPTIONS = {"folder": str(EXTERNAL / "bfcl")}


def item(number, category="simple_python"):
    """The task with that id, whatever its place."""
    domain = bfcl.load(category, OPTIONS)
    found = (domain.task("eval", 1, index) for index in range(len(domain.items)))
    return domain, next(task for task in found if task.tags == (f"id:{category}_{number}",))


def score(task_of, *calls, text=None):
    domain, task = task_of
    tags = "".join(f"<tool_call>{json.dumps({'name': n, 'arguments': a})}</tool_call>" for n, a in calls)
    return asyncio.run(domain.verify(task, tags if text is None else text, None)).score


TABLE = {"name": "Lindqvist", "guests": 4, "date": "2026-12-24"}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, 1),
        ({"name": "lindqvist "}, 1),  # case and blanks do not count
        ({"guests": 4.0}, 1),
        ({"date": "20261224"}, 0),  # the package strikes hyphens from dates
        ({"date": "2026-1-224"}, 0),
        ({"guests": "4"}, 0),
        ({"guests": 5}, 0),
        ({"guests": True}, 0),
        ({"wine": "red"}, 0),
    ],
)
def test_arguments_of_a_call(change, expected):
    assert score(item(1), ("table.book", TABLE | change)) == expected


def test_a_truth_value_is_no_number():
    points = [[0, 0], [1.5, 2], [3, 0]]
    assert score(item(2), ("draw.polygon", {"points": points, "closed": True})) == 1
    assert score(item(2), ("draw.polygon", {"points": points, "closed": 1})) == 0  # in Python, True == 1
    assert score(item(2), ("draw.polygon", {"points": points[::-1], "closed": True})) == 0


def test_what_may_be_left_out_is_left_out_and_not_empty():
    assert score(item(0), ("weather.get", {"city": "Bergen, Norway"})) == 1
    assert score(item(0), ("weather.get", {"city": "Bergen", "unit": "Celsius"})) == 1
    assert score(item(0), ("weather.get", {"city": "Bergen", "unit": ""})) == 0


def test_objects_list_the_values_of_each_key():
    assert score(item(3), ("people.search", {"where": {"city": "Oslo", "min_age": 30}})) == 1
    assert score(item(3), ("people.search", {"where": {"city": "Oslo"}})) == 0
    assert score(item(3), ("people.search", {"where": {"city": "Oslo", "min_age": 30, "max_age": 40}})) == 0


def test_one_call_too_many_is_wrong_and_so_is_none():
    call = ("table.book", TABLE)
    assert (score(item(1), call, call), score(item(1), text="I would book a table.")) == (0, 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("No function can tell a joke.", 1),
        ("", 0),
        ('<tool_call>{"name": "weather.get", "arguments": {"city": "Oslo"}}</tool_call>', 0),
        ('<tool_call>{"name": "weather.get", "argum', 0),  # the package counts what it cannot decode as no call
    ],
)
def test_where_no_function_fits_a_broken_call_is_a_call(text, expected):
    assert score(item(0, "irrelevance"), text=text) == expected


def test_parallel_calls_are_paired_in_any_way_that_works():
    call = bfcl.calls_of_reply('<tool_call>{"name": "f", "arguments": {"x": 1}}</tool_call>')[0]
    other = bfcl.calls_of_reply('<tool_call>{"name": "f", "arguments": {"x": 2}}</tool_call>')[0]
    answers = [("f", {"x": [1, 2]}), ("f", {"x": [1]})]  # taking the first match leaves x = 2 without an answer
    assert bfcl.judge([call, other], answers, {}).score == 1
    assert bfcl.judge([other, other], answers, {}).score == 0


def test_an_argument_with_its_default_is_not_too_many():
    tools = {"f": {"parameters": {"properties": {"x": {}, "deep": {"default": False}}}}}
    calls = [
        bfcl.calls_of_reply(f'{{"name": "f", "arguments": {{"x": 1, "deep": {value}}}}}') for value in ("false", "true")
    ]
    assert [bfcl.judge(each, [("f", {"x": [1]})], tools).score for each in calls] == [1, 0]


def test_an_item_that_no_reply_can_solve_is_left_out():
    assert len(bfcl.load("simple_python", OPTIONS).items) == 5  # the file has six; one asks for an unknown argument


@pytest.mark.parametrize(
    ("one", "other", "are_same"),
    [
        ("April 1, 2024", "april 1 2024", True),
        ("New York,NY", "new york, ny", True),
        ("oat-milk", "oat milk", True),
        ("3.14", "314", False),
        ("-5", "5", False),
        ("a/b", "ab", False),
        ("it's", "it\u2019s", True),
        ("1,000", "1000", False),
    ],
)
def test_what_counts_in_a_text(one, other, are_same):
    assert (plain(one) == plain(other)) == are_same


def test_an_unknown_category_lists_the_known_ones_and_a_missing_package_says_how_to_get_it(monkeypatch):
    with pytest.raises(ConfigError, match="no category 'java'; there are: simple_python"):
        bfcl.load("java", {})
    monkeypatch.setattr(bfcl, "PACKAGE", "no_such_package")
    with pytest.raises(
        ConfigError, match=r"reads its tasks from the package bfcl-eval, .*pip install --no-deps bfcl-eval=="
    ):
        bfcl.load("simple_python", {})


def test_each_item_of_the_installed_package_takes_its_own_gold():
    pytest.importorskip("bfcl_eval", reason="pip install --no-deps bfcl-eval")
    for category in ("parallel_multiple", "live_simple"):
        domain = bfcl.load(category, {})
        tasks = [domain.task("eval", 1, index) for index in range(len(domain.items))]
        assert {asyncio.run(domain.verify(task, task.gold, None)).score for task in tasks} == {1.0}
