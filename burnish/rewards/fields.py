"""Fields of a JSON object, compared one by one, each in the form of its kind.

Kinds: `text` (NFKC, white space, case), `date`, `amount` (both of `normalise`), `number` (exact to 1e-9), `json`
(any value, strictly). A truth of null asks for null: a missing key is not null.

Decisions: score = accuracy = share of the truth's fields that are right; `completeness` = share that is there with
a value, right or wrong. Fields that the truth does not name do not count. What is no JSON object scores 0.
A date and a text are strings; an amount may be a string or a number; a number is a number.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Literal

from burnish.core.types import Verdict
from burnish.rewards import normalise
from burnish.rewards.strict_json import InvalidJson, Value, is_equal, parse_reply

Kind = Literal["text", "date", "amount", "number", "json"]

MOST_NOTES = 5


def judge_fields(truth: Mapping[str, Value], kinds: Mapping[str, Kind], reply: str) -> Verdict:
    """Judge a reply that should be a JSON object with the truth's fields."""
    try:
        value = parse_reply(reply)
    except InvalidJson as error:
        return nothing(f"invalid JSON: {error}")
    if not isinstance(value, Mapping):
        return nothing("valid JSON, but no object")
    wrong = {name: _complaint(name, truth, value, kinds) for name in truth}
    notes = [note for note in wrong.values() if note]
    num_there = sum(1 for name, expected in truth.items() if _is_there(name, expected, value))
    accuracy = (len(truth) - len(notes)) / len(truth)
    parts = {"accuracy": accuracy, "completeness": num_there / len(truth), "valid_json": 1.0}
    shown = [f"{len(truth) - len(notes)} of {len(truth)} fields right", *notes[:MOST_NOTES]]
    return Verdict.scored(accuracy, parts, "; ".join(shown))


def nothing(evidence: str) -> Verdict:
    """The verdict on a reply of which no field can be read."""
    return Verdict.scored(0.0, {"accuracy": 0.0, "completeness": 0.0, "valid_json": 0.0}, evidence)


def is_same_field(kind: Kind, expected: Value, value: Value) -> bool:
    """Compare one field; `expected` is trusted, `value` may be anything."""
    if expected is None or value is None:
        return expected is value
    if kind in ("json", "number"):
        return is_equal(expected, value)
    if kind == "amount":
        return _amount(expected) is not None and _amount(expected) == _amount(value)
    if not (isinstance(expected, str) and isinstance(value, str)):
        return False
    if kind == "date":
        return normalise.day(expected) is not None and normalise.day(expected) == normalise.day(value)
    return normalise.text(expected) == normalise.text(value)


def fault(kind: Kind, expected: Value) -> str:
    """Why a truth cannot be of a kind; empty if it can."""
    if is_same_field(kind, expected, expected):
        return "" if kind != "number" or _is_number(expected) else f"{expected!r} is no number"
    return f"{expected!r} cannot be read as {kind}"


def _is_number(value: Value) -> bool:
    return value is None or (isinstance(value, int | Decimal) and not isinstance(value, bool))


def _amount(value: Value) -> Decimal | None:
    if isinstance(value, str):
        return normalise.amount(value)
    return Decimal(value) if isinstance(value, int | Decimal) and not isinstance(value, bool) else None


def _is_there(name: str, expected: Value, value: Mapping[str, Value]) -> bool:
    return name in value and (value[name] is not None or expected is None)


def _complaint(name: str, truth: Mapping[str, Value], value: Mapping[str, Value], kinds: Mapping[str, Kind]) -> str:
    """Why a field is wrong; empty if it is right."""
    if name not in value:
        return f"{name}: missing"
    if is_same_field(kinds.get(name, "text"), truth[name], value[name]):
        return ""
    return f"{name}: got {_brief(value[name])}, expected {_brief(truth[name])}"


def _brief(value: Value) -> str:
    shown = ascii(value) if isinstance(value, str) else str(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."
