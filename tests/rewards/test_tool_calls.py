"""The verifier `tool_call`: which calls are right, and that a broken one is never abstention."""

import json

import pytest

from burnish.rewards import verifier

TOOLS = {
    "book": {
        "properties": {
            "city": {"type": "string"},
            "nights": {"type": "integer"},
            "price": {"type": "number"},
            "breakfast": {"type": "boolean", "default": False},
            "guests": {"type": "array", "items": {"type": "string"}},
            "room": {"type": "object", "properties": {"beds": {"type": "integer", "default": 1}}},
        },
        "required": ["city", "nights"],
    }
}
TRUTH = {"name": "book", "arguments": {"city": "Zürich", "nights": 2}, "also": {"city": ["Zurich"]}}


def score(truth, reply, **options):
    text = reply if isinstance(reply, str) else json.dumps(reply)
    return verifier("tool_call", {"tools": TOOLS, **options}).judge(truth, text).score


def call(**arguments):
    return {"name": "book", "arguments": {"city": "Zürich", "nights": 2, **arguments}}


@pytest.mark.parametrize(
    "reply",
    [
        call(),
        [call()],
        call(city=" Zu\u0308rich "),
        call(city="Zurich"),
        call(nights=2.0),
        call(breakfast=False),
        {"function": {"name": "book", "arguments": json.dumps(call()["arguments"])}, "type": "function", "id": "1"},
        {"name": "book", "parameters": call()["arguments"]},
        f"```json\n{json.dumps(call())}\n```",
        f"I will book.\n<tool_call>\n{json.dumps(call())}\n</tool_call>",
    ],
    ids=lambda reply: json.dumps(reply)[:50],
)
def test_a_right_call_scores(reply):
    assert score(TRUTH, reply) == 1.0


@pytest.mark.parametrize(
    "reply",
    [
        call(nights="2"),
        call(nights=2.5),
        call(nights=True),
        call(city="zürich"),
        call(city="Basel"),
        call(breakfast=True),
        call(colour="red"),
        {"name": "Book", "arguments": call()["arguments"]},
        {"name": "book", "arguments": {"city": "Zürich"}},
        {"name": "book"},
        [call(), call()],
        [],
        "book(city='Zürich', nights=2)",
        f"{json.dumps(call())} or {json.dumps(call())}",
        f"Sure: {json.dumps(call())}",
        f"<tool_call>{json.dumps(call())}",
        json.dumps(call())[:-1],
        json.dumps(call()).replace('"', "'"),
        "",
        "[" * 100_000,
        "<tool_call>" * 10_000,
    ],
    ids=lambda reply: json.dumps(reply)[:50],
)
def test_anything_else_does_not(reply):
    assert score(TRUTH, reply) == 0.0


@pytest.mark.parametrize("truth", [None, []])
def test_abstention_is_right_only_without_a_call_and_without_a_broken_one(truth):
    assert score(truth, "I cannot do that with these tools.") == 1.0
    assert score(truth, "Use `len(x)`:\n```python\nlen(x)\n```") == 1.0
    assert score(truth, call()) == 0.0
    assert score(truth, json.dumps(call())[:-1]) == 0.0
    assert score(truth, "<tool_call>{book") == 0.0
    assert score(truth, "<function=book>{}</function>") == 0.0
    assert score(truth, f"Let me see. {json.dumps(call())[:-2]}") == 0.0


def test_nested_values_compare_by_the_schema_inside():
    truth = {"name": "book", "arguments": {"guests": ["Ann", "Bo"], "room": {"beds": 1}, "price": 0.3}}
    given = {"guests": ["Ann ", "Bo"], "room": {}, "price": 0.30000000000000004}
    assert score(truth, {"name": "book", "arguments": given}) == 1.0
    assert score(truth, {"name": "book", "arguments": {**given, "guests": ["Bo", "Ann"]}}) == 0.0
    assert score(truth, {"name": "book", "arguments": {**given, "room": {"beds": 2}}}) == 0.0


def test_several_calls_count_in_any_order_unless_order_is_asked_for():
    first, second = call(), {"name": "book", "arguments": {"city": "Bern", "nights": 1}}
    assert score([first, second], [second, first]) == 1.0
    assert score([first, second], [second, first], in_order=True) == 0.0
    assert score([first, second], [first, first]) == 0.0


@pytest.mark.parametrize("truth", ["book", 3, {"name": "book"}, {"name": "", "arguments": {}}, [call(), None]])
def test_a_truth_that_is_no_call_is_refused_at_loading(truth):
    assert "is no call" in verifier("tool_call").fault(truth)
