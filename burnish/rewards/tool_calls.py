"""The verifier `tool_call`: the calls that a reply makes against the calls that are right.

A reply makes calls as `<tool_call>{...}</tool_call>` blocks anywhere, or it is one JSON value as a whole or in its one
fenced block: an object, or a list of them. An object has `name` and `arguments` (or `parameters`, or both inside
`function`); arguments may be an object or a string that holds one.

Decisions: what begins like a call and cannot be read is a *broken* call, and wrong, also where no call is right: it is
never credited as abstention. Abstention (a truth of null or []) is right only without any call. All calls must be
right, and no more than those; their order does not matter unless `in_order`. Names are compared exactly.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from burnish.core.types import Json, Verdict
from burnish.rewards.strict_json import InvalidJson, Value, from_python, parse, parse_reply
from burnish.rewards.tool_arguments import NO_SCHEMA, Schema, part, wrong_keys

MOST_CALLS = 32
LONGEST_REPLY = 200_000

OPENING, CLOSING = "<tool_call>", "</tool_call>"
LOOKS_LIKE_TAG = re.compile(r"<\s*/?\s*(?:tool_call|function_call|function=|invoke)|\[TOOL_CALLS\]", re.IGNORECASE)
LOOKS_LIKE_JSON = re.compile(r"\s*(?:[\[{])|.*```", re.DOTALL)
LOOKS_LIKE_CALL = re.compile(r'["\'](?:arguments|parameters|function)["\']\s*:|["\']name["\']\s*:')


class BrokenCall(ValueError):
    """The reply tries to call and fails; the message says how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call; `also` holds further right values of arguments (of a truth only)."""

    name: str
    arguments: Mapping[str, Value]
    also: Mapping[str, Sequence[Value]]


def calls_of_truth(truth: Json) -> list[Call]:
    """Read the right calls; `BrokenCall` where the truth is none."""
    if truth is None:
        return []
    try:
        value = from_python(truth)
    except InvalidJson as error:
        raise BrokenCall(str(error)) from None
    entries = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    return [_call(entry, is_truth=True) for entry in entries]


def calls_of_reply(reply: str) -> list[Call]:
    """Read the calls that a reply makes; `BrokenCall` where it tries and fails."""
    if len(reply) > LONGEST_REPLY:
        raise BrokenCall(f"a reply of {len(reply)} characters; at most {LONGEST_REPLY} are read")
    texts = _tagged(reply)
    if texts is None:
        return _untagged(reply)
    if len(texts) > MOST_CALLS:
        raise BrokenCall(f"{len(texts)} calls; at most {MOST_CALLS} are read")
    return [_call(_parsed(text), is_truth=False) for text in texts]


def judge_calls(right: Sequence[Call], tools: Mapping[str, Schema], reply: str, *, in_order: bool) -> Verdict:
    """Judge a reply: 1 if its calls are the right ones, else 0."""
    try:
        made = calls_of_reply(reply)
    except BrokenCall as error:
        return Verdict.scored(0.0, {"has_call": 0.0, "is_broken": 1.0}, f"a broken call: {error}")
    parts = {"has_call": float(bool(made)), "is_broken": 0.0}
    if len(made) != len(right):
        return Verdict.scored(0.0, parts, f"{len(made)} calls, expected {len(right)}")
    left = list(made)
    for call in right:
        candidates = left[:1] if in_order else left
        complaints = [complaint(call, other, tools.get(call.name, NO_SCHEMA)) for other in candidates]
        if "" not in complaints:
            return Verdict.scored(0.0, parts, f"{call.name}: {complaints[0]}")
        del left[complaints.index("")]
    return Verdict.scored(1.0, parts, f"{len(made)} calls, all right" if made else "no call, as is right")


def complaint(right: Call, made: Call, schema: Schema) -> str:
    """What is wrong with a call; empty if nothing is."""
    if made.name != right.name:
        return f"called {ascii(made.name)[:60]} instead"
    wrong = wrong_keys(right.arguments, made.arguments, schema, right.also)
    return "; ".join(f"{ascii(key)[:40]} {what}" for key, what in list(wrong.items())[:5])


def _tagged(reply: str) -> list[str] | None:
    """What stands inside tags, None where there is no tag."""
    if OPENING not in reply:
        return None
    _, *pieces = reply.split(OPENING)
    if any(piece.count(CLOSING) != 1 for piece in pieces):
        raise BrokenCall("a <tool_call> that is not closed")
    return [piece.partition(CLOSING)[0] for piece in pieces]


def _untagged(reply: str) -> list[Call]:
    if LOOKS_LIKE_TAG.search(reply):
        raise BrokenCall("a tag of a call that is none of <tool_call>...</tool_call>")
    if not LOOKS_LIKE_JSON.match(reply):
        if LOOKS_LIKE_CALL.search(reply):
            raise BrokenCall("a call in the middle of a text; expected it alone, fenced or tagged")
        return []
    try:
        value = parse_reply(reply)
    except InvalidJson as error:
        if "```" in reply and not LOOKS_LIKE_CALL.search(reply) and not reply.lstrip().startswith(("{", "[")):
            return []
        raise BrokenCall(str(error)) from None
    entries = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    if len(entries) > MOST_CALLS:
        raise BrokenCall(f"{len(entries)} calls; at most {MOST_CALLS} are read")
    return [_call(entry, is_truth=False) for entry in entries]


def _parsed(text: str) -> Value:
    try:
        return parse(text.strip())
    except InvalidJson as error:
        raise BrokenCall(str(error)) from None


def _call(value: Value, *, is_truth: bool) -> Call:
    if not isinstance(value, Mapping):
        raise BrokenCall("a call that is no JSON object")
    inner = value.get("function")
    if isinstance(inner, Mapping) and "name" in inner:
        value = inner
    name = value.get("name")
    if not isinstance(name, str) or not name:
        raise BrokenCall("a call without a name")
    known = {"name", "arguments", "parameters", "id", "type", *(["also"] if is_truth else [])}
    if extra := [key for key in value if key not in known]:
        raise BrokenCall(f"a call with the key {ascii(extra[0])[:40]}; expected name and arguments")
    if ("arguments" in value) == ("parameters" in value):
        raise BrokenCall(
            "a call without arguments" if "arguments" not in value else "a call with two sets of arguments"
        )
    arguments = value.get("arguments", value.get("parameters"))
    if isinstance(arguments, str):
        arguments = _parsed(arguments)
    if not isinstance(arguments, Mapping):
        raise BrokenCall("arguments that are no JSON object")
    return Call(name=name, arguments=arguments, also=_also(part(value, "also"), arguments))


def _also(also: Mapping[str, Value], arguments: Mapping[str, Value]) -> Mapping[str, Sequence[Value]]:
    found: dict[str, Sequence[Value]] = {}
    for key, values in also.items():
        if key not in arguments or isinstance(values, str) or not isinstance(values, Sequence):
            raise BrokenCall(f"also.{ascii(key)[:40]}: expected a list of further values of an argument")
        found[key] = values
    return found
