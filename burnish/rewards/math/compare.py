"""Whether two read values are the same answer.

Decisions: types do not mix, but: a bare list is a set of roots, or a tuple in its order; brackets around two numbers
may be an interval; a name may be left out (`x = 5`, `5`), not changed; a unit may be left out, not changed (one that is
converted is not changed); `50%` is 50 and a half, a degree a number and pi/180; a ratio of two is a fraction.
A decimal of at least six digits, all right (rounded or cut off), is a fraction or root that has no end.
"""

import re
from decimal import Decimal
from fractions import Fraction

from burnish.rewards.math import algebra, numeric, regions
from burnish.rewards.math.algebra import Expr
from burnish.rewards.math.equality import is_multiple, is_same_expr
from burnish.rewards.math.limits import Undecided
from burnish.rewards.math.reading import factor_of
from burnish.rewards.math.values import (
    Collection,
    Equation,
    Inequality,
    Matrix,
    Named,
    Ratio,
    Region,
    Scalar,
    Span,
    Text,
    Value,
)  # fmt: skip

NUM_RIGHT_DIGITS = 6
CLOCK = re.compile(r"[0-2]?[0-9]:[0-5][0-9]")


def is_same(truth: Value, answer: Value) -> bool:
    """Compare two values; `Undecided` where that was not settled."""
    if isinstance(truth, Named) or isinstance(answer, Named):
        return _is_same_named(truth, answer)
    if isinstance(truth, Scalar) and isinstance(answer, Scalar):
        return is_same_scalar(truth, answer)
    if isinstance(truth, Region) or isinstance(answer, Region):
        return _is_same_region(truth, answer)
    if isinstance(truth, Collection) and isinstance(answer, Collection):
        return _is_same_collection(truth, answer)
    if isinstance(truth, Ratio) or isinstance(answer, Ratio):
        return _is_same_ratio(truth, answer)
    if isinstance(truth, Matrix) and isinstance(answer, Matrix):
        return _is_same_matrix(truth, answer)
    if isinstance(truth, Text) and isinstance(answer, Text):
        return truth.words.casefold() == answer.words.casefold()
    if isinstance(truth, Equation) and isinstance(answer, Equation):
        return is_multiple(truth.difference, answer.difference) != 0
    if isinstance(truth, Inequality) and isinstance(answer, Inequality):
        return truth.is_strict == answer.is_strict and is_multiple(truth.difference, answer.difference) > 0
    return False


def _is_same_named(truth: Value, answer: Value) -> bool:
    """A constant behind a name asks for that constant; an equation that only leads to it is not solved."""
    name, value = (truth.name, truth.value) if isinstance(truth, Named) else ("", truth)
    other_name, other = (answer.name, answer.value) if isinstance(answer, Named) else ("", answer)
    may_be_one = not name or not other_name or name == other_name or (len(name) > 1) != (len(other_name) > 1)
    if may_be_one and is_same(value, other):
        return True
    equation, other_equation = _as_equation(truth), _as_equation(answer)
    if equation is None or other_equation is None or not _has_two_symbols(equation):
        return False
    return is_multiple(equation, other_equation) != 0


def _has_two_symbols(difference: Expr) -> bool:
    return len(algebra.symbols(difference)) > 1


def _as_equation(value: Value) -> Expr | None:
    if isinstance(value, Equation):
        return value.difference
    if isinstance(value, Named) and isinstance(value.value, Scalar) and value.name.isidentifier():
        return algebra.subtract(algebra.symbol(value.name), value.value.expr)
    return None


def is_same_scalar(truth: Scalar, answer: Scalar) -> bool:
    """Compare numbers with their units; where one has none, or a pure one, both meanings of the other count."""
    if truth.unit.dimensions and answer.unit.dimensions:
        if truth.unit.dimensions != answer.unit.dimensions:
            return False
        return is_same_expr(_converted(truth), _converted(answer)) or (
            truth.unit == answer.unit and _is_rounded(truth, answer)
        )
    if truth.unit.is_pure and answer.unit.is_pure and truth.unit.name and answer.unit.name:
        return is_same_expr(_converted(truth), _converted(answer))
    if is_same_expr(truth.expr, answer.expr) or _is_rounded(truth, answer):
        return True
    if truth.unit.is_pure and answer.unit.is_pure and truth.unit != answer.unit:
        return is_same_expr(_converted(truth), _converted(answer))
    return False


def _converted(value: Scalar) -> Expr:
    return algebra.multiply(value.expr, factor_of(value.unit))


def _is_rounded(truth: Scalar, answer: Scalar) -> bool:
    return _is_rounding_of(truth, answer.expr) or _is_rounding_of(answer, truth.expr)


def _is_rounding_of(decimal: Scalar, exact: Expr) -> bool:
    """Whether a decimal is the beginning of a number that has no end, or its rounding."""
    written = algebra.as_fraction(decimal.expr)
    if decimal.num_digits is None or decimal.num_digits < NUM_RIGHT_DIGITS or written is None:
        return False
    value = algebra.as_fraction(exact)
    if value is not None and _ends(value):
        return False
    if value is None:
        real = numeric.real_value(exact)
        if real is None:
            return False
        value = _fraction(real)
    unit = Fraction(10) ** -decimal.num_decimals
    is_cut = written == int(value / unit) * unit
    return is_cut or abs(written - value) * 2 <= unit


def _fraction(real: Decimal) -> Fraction:
    if abs(real.adjusted()) > 1_000:
        raise Undecided("a value out of range")
    return Fraction(real)


def _ends(value: Fraction) -> bool:
    below = value.denominator
    for prime in (2, 5):
        while below % prime == 0:
            below //= prime
    return below == 1


def _is_same_region(truth: Value, answer: Value) -> bool:
    a, b = _region(truth), _region(answer)
    if a is None or b is None or len(a.spans) != len(b.spans):
        return False
    return all(_is_same_span(left, right) for left, right in zip(a.spans, b.spans, strict=True))


def _region(value: Value) -> Region | None:
    if isinstance(value, Collection):
        return regions.of_collection(value)
    return value if isinstance(value, Region) else None


def _is_same_span(a: Span, b: Span) -> bool:
    if (a.has_low, a.has_high) != (b.has_low, b.has_high):
        return False
    return _is_same_end(a.low, b.low) and _is_same_end(a.high, b.high)


def _is_same_end(a: Expr | None, b: Expr | None) -> bool:
    return a is b if a is None or b is None else is_same_expr(a, b)


def _is_same_collection(truth: Collection, answer: Collection) -> bool:
    kinds = {truth.kind, answer.kind}
    if kinds <= {"set", "list"}:
        is_set = "set" in kinds
        a, b = (_distinct(v.items) if is_set else v.items for v in (truth, answer))
        return len(a) == len(b) and _are_paired(a, b)
    if kinds <= {"tuple", "list"} or truth.brackets == answer.brackets:
        if len(truth.items) != len(answer.items):
            return False
        return all(is_same(a, b) for a, b in zip(truth.items, answer.items, strict=True))
    return False


def _distinct(items: tuple[Value, ...]) -> tuple[Value, ...]:
    kept: list[Value] = []
    for item in items:
        if not any(is_same(item, other) for other in kept):
            kept.append(item)
    return tuple(kept)


def _are_paired(a: tuple[Value, ...], b: tuple[Value, ...]) -> bool:
    left = list(b)
    for item in a:
        at = next((k for k, other in enumerate(left) if is_same(item, other)), None)
        if at is None:
            return False
        del left[at]
    return True


def _is_same_ratio(truth: Value, answer: Value) -> bool:
    if isinstance(truth, Ratio) and isinstance(answer, Ratio):
        if CLOCK.fullmatch(truth.written) and CLOCK.fullmatch(answer.written):
            return truth.written.lstrip("0") == answer.written.lstrip("0")
        if len(truth.parts) != len(answer.parts):
            return False
        pairs = list(zip(truth.parts, answer.parts, strict=True))
        if not all(part.num for pair in pairs for part in pair):
            return all(is_same_expr(a, b) for a, b in pairs)
        (first, other), *rest = pairs
        return all(is_same_expr(algebra.multiply(first, b), algebra.multiply(a, other)) for a, b in rest)
    ratio, scalar = (truth, answer) if isinstance(truth, Ratio) else (answer, truth)
    if not (isinstance(ratio, Ratio) and isinstance(scalar, Scalar)) or len(ratio.parts) != 2 or not ratio.parts[1].num:
        return False
    return not CLOCK.fullmatch(ratio.written) and is_same_expr(algebra.divide(*ratio.parts), scalar.expr)


def _is_same_matrix(truth: Matrix, answer: Matrix) -> bool:
    if (len(truth.rows), len(truth.rows[0])) != (len(answer.rows), len(answer.rows[0])):
        return False
    cells = zip(truth.rows, answer.rows, strict=True)
    return all(is_same(a, b) for row, other in cells for a, b in zip(row, other, strict=True))
