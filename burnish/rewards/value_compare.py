"""Values that code gave, read strictly and compared by a rule with a name.

Rules: `exact` (types exact: `True` is not 1, 1 is not 1.0; floats within the tolerance), `close` (numbers by value,
an integer may stand for a float), `unordered` (the items of the outermost list in any order), `unordered_nested`
(of every list), `one_of` (equal to one item of the expected list, for tasks with several right answers). A task
names a rule; it never brings code for one.

Decisions: a line is read with a cap on depth and digits; NaN, infinities and numbers beyond a double are refused
as no work of the worker's; an object with a doubled key equals nothing. Typed values (`code_value_worker.encode`)
compare sets and dicts in any order, `1` and `True` as different members. Bags are matched by sorting, so that no
answer costs more than its length times its logarithm and depth.
Covered: any bytes end in a value or `ValueError`. Not covered: unordered lists of *nested* values whose floats
differ in the tenth digit, which may sort differently on the two sides and then count as different.
"""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NoReturn

from burnish.core.types import Json

Rule = Literal["exact", "close", "unordered", "unordered_nested", "one_of"]

DEEPEST = 110  # a little more than the worker lets through, for the line around the value
ANY_ORDER = ("set", "frozenset", "dict")
STRING_OR_BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How a task's values are compared."""

    rule: Rule = "exact"
    rel_tol: float = 1e-9
    abs_tol: float = 1e-12
    is_typed: bool = False
    mixes_numbers: bool = False
    """Numbers by value, as under `close`, whatever the rule."""


EXACT = Comparison()


def parse_line(line: bytes) -> Json:
    """Parse one line of JSON; `ValueError` where it is none or passes a cap."""
    if line.count(b"[") + line.count(b"{") > DEEPEST:
        _check_depth(line)
    return json.loads(line, object_pairs_hook=_object, parse_constant=_refuse, parse_float=_float)


def is_same(value: Json, expected: Json, comparison: Comparison = EXACT) -> bool:
    """Whether a value is the expected one, by the task's rule; both may be hostile, both are nested finitely."""
    match comparison.rule:
        case "one_of":
            assert isinstance(expected, list)
            return any(_same(value, one, comparison, any_order=False) for one in expected)
        case "unordered":
            if isinstance(value, list) and isinstance(expected, list):
                return _same_bag(value, expected, comparison, any_order=False)
            return _same(value, expected, comparison, any_order=False)
        case rule:
            return _same(value, expected, comparison, any_order=rule == "unordered_nested")


def _same(value: Json, expected: Json, comparison: Comparison, *, any_order: bool) -> bool:
    if (comparison.mixes_numbers or comparison.rule == "close") and _is_number(value) and _is_number(expected):
        return _is_close(value, expected, comparison)
    if type(value) is not type(expected):
        return False
    if isinstance(value, float):
        return _is_close(value, expected, comparison)
    if isinstance(value, list) and isinstance(expected, list):
        if any_order:
            return _same_bag(value, expected, comparison, any_order=True)
        return _same_items(value, expected, comparison, any_order=False)
    if isinstance(value, dict) and isinstance(expected, dict):
        if comparison.is_typed and value.get("$") == expected.get("$") and value.get("$") in ANY_ORDER:
            items, others = value.get("items"), expected.get("items")
            return isinstance(items, list) and isinstance(others, list) and _same_members(items, others, comparison)
        return value.keys() == expected.keys() and all(
            _same(value[key], expected[key], comparison, any_order=any_order) for key in value
        )
    return value == expected


def _same_members(items: list[Json], others: list[Json], comparison: Comparison) -> bool:
    return _same_bag(items, others, comparison, any_order=False)


def _same_items(values: Sequence[Json], expected: Sequence[Json], comparison: Comparison, *, any_order: bool) -> bool:
    return len(values) == len(expected) and all(
        _same(value, other, comparison, any_order=any_order) for value, other in zip(values, expected, strict=True)
    )


def _same_bag(values: list[Json], expected: list[Json], comparison: Comparison, *, any_order: bool) -> bool:
    if len(values) != len(expected):
        return False
    return _same_items(sorted(values, key=_order), sorted(expected, key=_order), comparison, any_order=any_order)


def _order(value: Json) -> tuple[float, str]:
    """Where a value stands: numbers by size (pairs of sorted numbers are the closest pairs), the rest by a text."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return (value, type(value).__name__)
    return (math.inf, _text(value))


def _text(value: Json) -> str:
    """A text that two equal values share, whatever the order within them."""
    if isinstance(value, list):
        return "l" + ",".join(sorted(map(_text, value)))
    if isinstance(value, dict):
        return "d" + ",".join(sorted(f"{key!r}:{_text(item)}" for key, item in value.items()))
    if isinstance(value, float):
        return f"n{value:.9g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"n{float(value):.9g}" if abs(value) < 1 << 53 else f"n{value:x}"
    return json.dumps(value)


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_close(value: Json, expected: Json, comparison: Comparison) -> bool:
    assert isinstance(value, int | float) and isinstance(expected, int | float)
    if isinstance(value, int) and isinstance(expected, int):
        return value == expected
    try:
        return math.isclose(value, expected, rel_tol=comparison.rel_tol, abs_tol=comparison.abs_tol)
    except OverflowError:  # an integer beyond any float
        return False


def _check_depth(line: bytes) -> None:
    depth = 0
    for match in STRING_OR_BRACKET.finditer(line):
        depth += 1 if match.group() in (b"[", b"{") else -1 if match.group() in (b"]", b"}") else 0
        if depth > DEEPEST:
            raise ValueError(f"nested deeper than {DEEPEST}")


def _object(pairs: list[tuple[str, Json]]) -> Json:
    table = dict(pairs)
    return table if len(table) == len(pairs) else math.nan  # NaN, since it equals nothing


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"a number beyond a double: {text[:20]}")
    return number
