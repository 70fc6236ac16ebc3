"""New inputs like given ones, against code that knows the given ones by heart.

`perturb(examples, seed, num)` looks at all examples at once and draws arguments of the same shapes: integers and
floats within the range seen at that place (and with as many decimals), strings with letters for letters, digits for
digits and the punctuation kept, lists as long as some list there, sorted or free of repeats where all of them were,
dicts with the same keys, rows of a matrix as long as they were.

Decisions: pure functions of their arguments; equal seeds give equal inputs; no result is an example or comes twice,
so that where little can differ (booleans alone) fewer come than were asked for. What a function demands beyond
shapes (k at most the length, a graph without a cycle) cannot be seen: run a reference and drop where it raises.
Covered: JSON values, nested, and typed ones (the `$` of a type is kept). Not covered: relations between arguments.
"""

import json
from collections.abc import Sequence
from random import Random
from string import ascii_lowercase, ascii_uppercase, digits

from burnish.core.types import Json

DRAWS_FOR_ONE = 20
KEPT_KEYS = ("$", "hex", "text")
FEW_LETTERS = 3


def perturb(examples: Sequence[list[Json]], seed: int, num: int, *, is_class: bool = False) -> list[list[Json]]:
    """Draw up to `num` argument lists like the examples; with `is_class`, constructor arguments and steps."""
    rng = Random(seed)
    seen = {json.dumps(example) for example in examples}
    drawn: list[list[Json]] = []
    for _ in range(DRAWS_FOR_ONE * num if examples else 0):
        base = rng.choice(examples)
        new = _steps(base, examples, rng) if is_class else _arguments(base, examples, rng)
        text = json.dumps(new)
        if text not in seen:
            seen.add(text)
            drawn.append(new)
        if len(drawn) == num:
            break
    return drawn


def _arguments(base: list[Json], examples: Sequence[list[Json]], rng: Random) -> list[Json]:
    """Each argument like those at its place."""
    alike = [example for example in examples if len(example) == len(base)]
    return [like(value, [example[place] for example in alike], rng) for place, value in enumerate(base)]


def _steps(base: list[Json], examples: Sequence[list[Json]], rng: Random) -> list[Json]:
    """The same methods in the same order, with arguments like those that the method has had."""
    first, steps = base
    assert isinstance(first, list) and isinstance(steps, list)
    made: list[Json] = []
    for method, arguments in map(_pair, steps):
        had = [given for example in examples for name, given in map(_pair, _list(example[1])) if name == method]
        made.append([method, _arguments(arguments, had, rng)])
    return [_arguments(first, [_list(example[0]) for example in examples], rng), made]


def _pair(step: Json) -> tuple[str, list[Json]]:
    assert isinstance(step, list)
    method, arguments = step
    assert isinstance(method, str) and isinstance(arguments, list)
    return method, arguments


def _list(value: Json) -> list[Json]:
    assert isinstance(value, list)
    return value


def like(base: Json, pool: Sequence[Json], rng: Random) -> Json:
    """A value of the kind of `base`, within what `pool`, the values at its place, shows."""
    match base:
        case bool():
            return rng.random() < 0.5
        case int():
            return _integer([x for x in pool if isinstance(x, int) and not isinstance(x, bool)], rng)
        case float():
            return _float([x for x in pool if isinstance(x, float)], rng)
        case str():
            return _string(base, [x for x in pool if isinstance(x, str)], rng)
        case list():
            return _new_list(base, [x for x in pool if isinstance(x, list)], rng)
        case dict():
            return {key: _entry(key, value, pool, rng, base.get("$")) for key, value in base.items()}
        case _:
            return base


def _entry(key: str, value: Json, pool: Sequence[Json], rng: Random, kind: Json) -> Json:
    if key in KEPT_KEYS:
        return value
    others = [other[key] for other in pool if isinstance(other, dict) and key in other]
    if kind == "tuple" and isinstance(value, list):  # its length is part of its type
        return [like(item, [item, *_at(place, others)], rng) for place, item in enumerate(value)]
    return like(value, others, rng)


def _at(place: int, lists: Sequence[Json]) -> list[Json]:
    return [other[place] for other in lists if isinstance(other, list) and len(other) > place]


def _integer(pool: Sequence[int], rng: Random) -> int:
    low, high = min(pool), max(pool)
    if low == high:  # nothing known but one value: stay on its side of zero
        low, high = sorted((1 if low > 0 else -1 if low < 0 else 0, 2 * low or 3))
    return rng.randint(low, high)


def _float(pool: Sequence[float], rng: Random) -> float:
    low, high = min(pool), max(pool)
    if low == high:
        low, high = sorted((low / 2, 2 * low or 1.0))
    num_decimals = max(len(f"{x!r}".partition(".")[2]) for x in pool)
    return round(rng.uniform(low, high), num_decimals)


def _string(base: str, pool: Sequence[str], rng: Random) -> str:
    """Letters for letters, digits for digits; a line of words may also be made of other lines' words."""
    words = [word for text in pool if text for word in text.split(" ")]  # the empty text has none, not an empty one
    if " " in base and rng.random() < 0.5:
        return " ".join(rng.choice(words) for _ in range(len(rng.choice(pool).split(" "))))
    letters = "".join(pool)
    text = "".join(_character(one, letters, rng) if rng.random() < 0.6 else one for one in base)
    if text.isalpha() and rng.random() < 0.3:  # what reads the same backwards is rare by chance, and often asked about
        return text + text[::-1] if len({len(x) for x in pool}) > 1 else text[::-1]
    return text


def _character(one: str, letters: str, rng: Random) -> str:
    for alphabet in (ascii_lowercase, ascii_uppercase, digits):
        if one in alphabet:
            seen = sorted(set(letters) & set(alphabet))
            return rng.choice(seen if len(seen) >= FEW_LETTERS else alphabet)
    return one


def _new_list(base: list[Json], pool: Sequence[list[Json]], rng: Random) -> list[Json]:
    """As long as some list there, with items like theirs, and with the order and distinctness that all show."""
    items = [item for other in pool for item in other]
    if not items:
        return base
    if _has_rows(pool):  # a matrix or a list of pairs: how many columns there are may not change
        return [_row(item, items, rng) for item in base]
    return _drawn(base or items, pool, len(rng.choice(pool)), rng)


def _has_rows(pool: Sequence[list[Json]]) -> bool:
    """Whether all items of each list are lists of one length."""
    lengths = [{len(item) if isinstance(item, list) else None for item in other} for other in pool if other]
    return all(len(one) == 1 and None not in one for one in lengths)


def _row(base: Json, items: Sequence[Json], rng: Random) -> Json:
    rows = [item for item in items if isinstance(item, list)]
    if not isinstance(base, list) or not base:
        return base
    return _drawn(base, rows, len(base), rng)


def _drawn(base: list[Json], pool: Sequence[list[Json]], length: int, rng: Random) -> list[Json]:
    items = [item for other in pool for item in other]
    made = [like(rng.choice(base), items, rng) for _ in range(length)]
    if _are_distinct(pool):
        more = [like(rng.choice(base), items, rng) for _ in range(DRAWS_FOR_ONE)]
        distinct = list({json.dumps(item): item for item in [*made, *more]}.values())
        made = (distinct + made)[:length]
    elif made and rng.random() < 0.5:
        made[rng.randrange(length)] = rng.choice(made)
    return sorted(made, key=_key) if _are_sorted(pool) else made


def _are_distinct(pool: Sequence[list[Json]]) -> bool:
    return all(len({json.dumps(item) for item in other}) == len(other) for other in pool)


def _are_sorted(pool: Sequence[list[Json]]) -> bool:
    long = [other for other in pool if len(other) > 2]
    return bool(long) and all(sorted(other, key=_key) == other for other in long)


def _key(value: Json) -> tuple[float, str]:
    is_number = isinstance(value, int | float)
    return (float(value), "") if is_number and abs(value) < 1 << 53 else (0.0, json.dumps(value))
