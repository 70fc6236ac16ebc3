"""Whether calls are the ones that a BFCL item allows; the leaderboard's rule with its faults put right.

An item allows for each argument a list of values, in which "" means that it may be left out. Where the package's own
matcher (`bfcl_eval.eval_checker.ast_eval`, 2026.3.23) differs:

| it | here |
|---|---|
| strikes `, . / - _ * ^` and blanks from texts: 3.14 is 314, -5 is 5 | all count, but as `plain` says |
| compares as Python does: `true` is 1 | a truth value is no number |
| takes the first match of parallel calls and never looks back | any pairing of calls with answers counts |
| has a rule of its own for what is nested, one level deep | the same rule at any depth |
| lets "" stand for an argument that may be left out | only leaving it out does |
| refuses an argument with its default value where the item does not list it | takes it |
| counts a reply that it cannot decode as having made no call | a broken call is a call |
"""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal

from burnish.core.types import Json
from burnish.rewards import composed
from burnish.rewards.strict_json import Value
from burnish.rewards.tool_calls import Call

QUOTES = str.maketrans('\u2018\u2019\u201c\u201d"', "'''''")
PAUSE = re.compile(r"[,.](?=\s|$)|,(?=\D)")
JOINT = re.compile(r"(?<=[^\W\d])[-_](?=[^\W\d])")
LEFT_OUT = ""

Allowed = Mapping[str, Sequence[Json]]
"""For each argument the values that are right."""


def is_allowed(calls: Sequence[Call], answers: Sequence[tuple[str, Allowed]], tools: Mapping[str, Json]) -> bool:
    """Whether calls and answers can be paired, each call with an answer that allows it."""
    if len(calls) != len(answers):
        return False
    fits = [[fault(call, name, allowed, tools.get(name)) == "" for name, allowed in answers] for call in calls]
    owner: dict[int, int] = {}
    return all(_pair(number, fits, owner, set()) for number in range(len(calls)))


def _pair(call: int, fits: Sequence[Sequence[bool]], owner: dict[int, int], tried: set[int]) -> bool:
    """Give a call an answer, if need be by giving the answer's call another (Kuhn's matching)."""
    for answer, is_fit in enumerate(fits[call]):
        if is_fit and answer not in tried:
            tried.add(answer)
            if answer not in owner or _pair(owner[answer], fits, owner, tried):
                owner[answer] = call
                return True
    return False


def fault(call: Call, name: str, allowed: Allowed, tool: Json) -> str:
    """What is wrong with a call; empty if the answer allows it."""
    if call.name != name:
        return f"calls {ascii(call.name)[:60]}, expected {name}"
    for key, value in call.arguments.items():
        if key in allowed and not any(is_same(one, value) for one in allowed[key] if one != LEFT_OUT):
            return f"{ascii(key)[:40]}: another value"
        if key not in allowed and not _is_default(tool, key, value):
            return f"{ascii(key)[:40]}: not asked for"
    missing = [key for key, values in allowed.items() if key not in call.arguments and LEFT_OUT not in values]
    return f"{missing[0]}: missing" if missing else ""


def is_same(right: Json, value: Value) -> bool:
    """Whether a value is the one that an answer names; objects in answers list the values of each key."""
    if right is None or isinstance(right, bool):
        return value is right
    if isinstance(right, str):
        return isinstance(value, str) and plain(right) == plain(value)
    if isinstance(right, int | float):
        return isinstance(value, int | Decimal) and not isinstance(value, bool) and _is_near(right, value)
    if isinstance(right, list):
        if isinstance(value, str) or not isinstance(value, Sequence):
            return False
        return len(right) == len(value) and all(map(is_same, right, value))
    return isinstance(value, Mapping) and _is_same_object(right, value)


def _is_same_object(right: Mapping[str, Json], value: Mapping[str, Value]) -> bool:
    options = {key: values if isinstance(values, list) else [values] for key, values in right.items()}
    return all(
        any(is_same(one, value[key]) for one in values if one != LEFT_OUT) if key in value else LEFT_OUT in values
        for key, values in options.items()
    ) and not set(value) - set(options)


def _is_near(right: float, value: int | Decimal) -> bool:
    expected = Decimal(repr(right))
    return abs(Decimal(value) - expected) <= abs(expected) * Decimal("1e-9")


def _is_default(tool: Json, key: str, value: Value) -> bool:
    schema = properties(tool).get(key)
    return isinstance(schema, dict) and "default" in schema and is_same(schema["default"], value)


def properties(tool: Json) -> Mapping[str, Json]:
    """The arguments that a tool takes, with their schemas."""
    parameters = tool.get("parameters") if isinstance(tool, dict) else None
    found = parameters.get("properties") if isinstance(parameters, dict) else None
    return found if isinstance(found, dict) else {}


def plain(text: str) -> str:
    """A text as it is compared: case, runs of blanks, and commas and full stops before a blank do not count.

    `-` and `_` between letters are a blank; next to a digit they are a sign, and signs, points and slashes count.
    """
    text = composed.nfc(text).casefold().translate(QUOTES)
    return " ".join(PAUSE.sub(" ", JOINT.sub(" ", text)).split())
