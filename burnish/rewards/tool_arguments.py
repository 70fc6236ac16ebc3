"""Arguments of a tool call, compared by their JSON Schema types.

`string`: exact after NFC and trimming. `integer`: a whole number, `5.0` included. `number`: to 1e-9. `boolean`: true is
not 1. `array`: item by item. `object`: key by key; a key that the schema does not require may be left out where the
truth has its default, and given with the default where the truth leaves it out.

Decisions: where the schema names no single type, the truth's own type holds. Several right values of an argument are
tried one by one. Not covered: `oneOf` and its kin, `$ref`, patterns and ranges: the truth is a value, not a rule.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal

from burnish.rewards.strict_json import Value, is_equal, text_of

Schema = Mapping[str, Value]
NO_SCHEMA: Schema = {}


def is_same_argument(expected: Value, value: Value, schema: Schema = NO_SCHEMA) -> bool:
    """Compare one argument; `expected` is trusted, `value` may be any JSON value."""
    if expected is None or value is None:
        return expected is value
    if isinstance(expected, bool) or isinstance(value, bool):
        return expected is value
    if isinstance(expected, str) or isinstance(value, str):
        return isinstance(expected, str) and isinstance(value, str) and _trimmed(expected) == _trimmed(value)
    if isinstance(expected, int | Decimal) and isinstance(value, int | Decimal):
        return _is_same_number(expected, value, schema)
    if isinstance(expected, Mapping) and isinstance(value, Mapping):
        return not wrong_keys(expected, value, schema)
    if isinstance(expected, Sequence) and isinstance(value, Sequence):
        items = part(schema, "items")
        return len(expected) == len(value) and all(map(is_same_argument, expected, value, [items] * len(value)))
    return False


def wrong_keys(
    expected: Mapping[str, Value],
    value: Mapping[str, Value],
    schema: Schema = NO_SCHEMA,
    also: Mapping[str, Sequence[Value]] | None = None,
) -> dict[str, str]:
    """What is wrong with each key of an object, empty where nothing is; `also` holds further right values of a key."""
    properties = part(schema, "properties")
    return {
        key: complaint
        for key in [*expected, *(key for key in value if key not in expected)]
        if (complaint := _complaint(key, expected, value, part(properties, key), (also or {}).get(key, ())))
    }


def part(schema: Schema, key: str) -> Schema:
    """A schema inside a schema; empty where there is none."""
    inner = schema.get(key)
    return inner if isinstance(inner, Mapping) else NO_SCHEMA


def _complaint(
    key: str, expected: Mapping[str, Value], value: Mapping[str, Value], schema: Schema, also: Sequence[Value]
) -> str:
    if key in expected and key in value:
        right = [expected[key], *also]
        return "" if any(is_same_argument(one, value[key], schema) for one in right) else "another value"
    given = expected.get(key) if key in expected else value.get(key)
    if "default" in schema and is_same_argument(schema["default"], given, schema):
        return ""
    return "missing" if key in expected else "not asked for"


def _is_same_number(expected: int | Decimal, value: int | Decimal, schema: Schema) -> bool:
    wants_whole = schema.get("type") == "integer" or (isinstance(expected, int) and schema.get("type") != "number")
    if wants_whole and Decimal(value) != Decimal(value).to_integral_value():
        return False
    return is_equal(expected, value)


def _trimmed(text: str) -> str:
    return text_of(text).strip()
