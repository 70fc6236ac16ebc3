"""JSON by RFC 8259, strictly, out of a reply that may be hostile.

The whole reply, its thinking left out, is one JSON value, or exactly one fenced block in it is (bare fence or `json`).

Decisions: invalid are NaN and Infinity, doubled keys, a second value, single quotes, comments, trailing
commas, floats beyond a double (1e400), integers of more than `MOST_DIGITS` digits, nesting beyond
`DEEPEST`, replies beyond `LONGEST`. Strings and keys come out in NFC, so that keys which differ by
composition alone are doubled. Integers are exact; floats come out as `Decimal`, as they were written.
Covered: any text ends in a value or `InvalidJson`, in linear time. Not covered: repair.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import NoReturn

from burnish.core.types import Json
from burnish.rewards import composed
from burnish.rewards.thinking import after_thinking

MOST_DIGITS = 4_000
DEEPEST = 100
LONGEST = 2_000_000
TOLERANCE = Decimal("1e-9")

Value = str | int | Decimal | bool | None | Sequence["Value"] | Mapping[str, "Value"]

STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)


class InvalidJson(ValueError):
    """The reply holds no single JSON value; the message says why."""


def parse_reply(reply: str) -> Value:
    """Parse the JSON value of a reply; `InvalidJson` where there is not exactly one."""
    said = after_thinking(reply)
    if said is None:
        raise InvalidJson("thinking that is not closed holds no answer")
    if len(said) > LONGEST:
        raise InvalidJson(f"a reply of {len(said)} characters; at most {LONGEST} are read")
    return parse(_unfenced(said))


def parse(text: str) -> Value:
    """Parse one JSON text."""
    _check_depth(text)
    try:
        return json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_constant,
            parse_float=_float,
            parse_int=_integer,
        )
    except json.JSONDecodeError as error:
        raise InvalidJson(f"not valid JSON: {error.msg} at character {error.pos}") from None


def from_python(value: Json) -> Value:
    """Bring a trusted Python value (a truth) into the form that `parse` gives."""
    return parse(json.dumps(value))


def is_equal(a: Value, b: Value) -> bool:
    """Compare: types exact (true is not 1), integers exact, other numbers to 1e-9, keys in any order."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, int | Decimal) and isinstance(b, int | Decimal):
        return _is_equal_number(Decimal(a), Decimal(b))
    if isinstance(a, str) or isinstance(b, str):
        return isinstance(a, str) and isinstance(b, str) and text_of(a) == text_of(b)
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(is_equal(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(is_equal(x, y) for x, y in zip(a, b, strict=True))
    return a is None and b is None


def mapping(value: Value) -> Mapping[str, Value]:
    """A value that is known to be an object."""
    assert isinstance(value, Mapping)
    return value


def text_of(string: str) -> str:
    """The form in which strings are compared."""
    return composed.nfc(string)


def _is_equal_number(a: Decimal, b: Decimal) -> bool:
    if _is_whole(a) and _is_whole(b):
        return a == b
    return abs(a - b) <= TOLERANCE


def _is_whole(number: Decimal) -> bool:
    return number == number.to_integral_value()


def _unfenced(reply: str) -> str:
    """The text inside the reply's only fenced block; the reply itself if it has no fence."""
    lines = reply.split("\n")
    fences = [number for number, line in enumerate(lines) if line.strip().startswith("```")]
    if not fences or reply.lstrip(" \t\r\n").startswith('"'):
        return reply
    if len(fences) != 2:
        raise InvalidJson(f"{len(fences)} fence lines; expected one fenced block")
    opening, closing = (lines[number].strip()[3:].strip().lower() for number in fences)
    if opening not in ("", "json") or closing:
        raise InvalidJson(f"a fence that says {(opening or closing)[:20]!r}; expected ```json or ```")
    return "\n".join(lines[fences[0] + 1 : fences[1]])


def _check_depth(text: str) -> None:
    depth = 0
    for match in STRING_OR_BRACKET.finditer(text):
        depth += 1 if match.group() in ("[", "{") else -1 if match.group() in ("]", "}") else 0
        if depth > DEEPEST:
            raise InvalidJson(f"nested deeper than {DEEPEST}")


def _object(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    table = {text_of(key): value for key, value in pairs}
    if len(table) != len(pairs):
        raise InvalidJson("an object with a doubled key")
    return table


def _constant(name: str) -> NoReturn:
    raise InvalidJson(f"{name} is not JSON")


def _float(text: str) -> Decimal:
    if math.isinf(float(text)):
        raise InvalidJson(f"a number beyond a double: {text[:20]}")
    if len(text) > MOST_DIGITS:
        raise InvalidJson(f"a number of {len(text)} characters; at most {MOST_DIGITS}")
    return Decimal(text) if float(text) else Decimal(0)


def _integer(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise InvalidJson(f"an integer of {len(text)} digits; at most {MOST_DIGITS}")
    return int(text)
