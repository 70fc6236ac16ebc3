"""JSON out of replies: strict, exact, and never a crash."""

import time
from decimal import Decimal

import pytest

from burnish.rewards.strict_json import InvalidJson, is_equal, parse_reply

INVALID = [
    "",
    "NaN",
    "[-Infinity]",
    "1e400",
    '{"a": 1, "a": 1}',
    '{"caf\u00e9": 1, "cafe\u0301": 2}',
    "{} {}",
    "{'a': 1}",
    "[1,]",
    "01",
    "+1",
    ".5",
    "// note\n1",
    '"line\nbreak"',
    'Here: {"a": 1}',
    "```json\n1\n```\n```json\n1\n```",
    "```python\n1\n```",
    "```json\n1",
    "[" * 200_000,
    '{"a":' * 200_000,
    "[" * 101 + "]" * 101,
    "9" * 5000,
    "\ufeff1",
]


@pytest.mark.parametrize("reply", INVALID, ids=lambda reply: ascii(reply[:20]))
def test_invalid_json_is_named_as_such(reply):
    with pytest.raises(InvalidJson):
        parse_reply(reply)


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        (' {"a": [1, 2.50, "x", null, true]}\n', {"a": [1, Decimal("2.50"), "x", None, True]}),
        ("Sure:\n```\n[1]\n```\nDone.", [1]),
        ("```JSON\n[1]\n```", [1]),
        ('"```"', "```"),
        ("[" * 100 + "]" * 100, None),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ('"[[[[ \\" ]"', '[[[[ " ]'),
    ],
)
def test_valid_json_is_read_exactly(reply, value):
    parsed = parse_reply(reply)
    assert value is None or (parsed == value and type(parsed) is type(value))


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (9007199254740993, Decimal("9007199254740993.0"), True),
        (9007199254740993, 9007199254740992, False),
        (True, 1, False),
        (0, False, False),
        (None, False, False),
        ("5", 5, False),
        (Decimal("0.3"), Decimal("0.3000000009"), True),
        (Decimal("0.3"), Decimal("0.300000002"), False),
        ([1, 2], [2, 1], False),
        ({"a": 1, "b": [True]}, {"b": [True], "a": 1}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": None}, {}, False),
        ([], {}, False),
        (10**3999, Decimal("0.5"), False),
    ],
)
def test_values_compare_by_type_and_value(a, b, expected):
    assert is_equal(a, b) is expected
    assert is_equal(b, a) is expected


@pytest.mark.parametrize("pattern", ['"', '\\"', "[1,", "```\n", "\n", "a\u0301", '{"a":"'])
def test_a_megabyte_of_anything_is_parsed_within_two_seconds(pattern):
    started = time.process_time()
    with pytest.raises(InvalidJson):
        parse_reply('"x' + pattern * (1_000_000 // len(pattern)))
    assert time.process_time() - started < 2.0
