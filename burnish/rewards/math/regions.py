"""Sets of real numbers as spans in order: union, intersection, difference, and what an inequality says."""

from fractions import Fraction

from burnish.rewards.math import algebra, numeric
from burnish.rewards.math.algebra import Expr
from burnish.rewards.math.limits import MOST_ITEMS, TooBig, Undecided, Unreadable
from burnish.rewards.math.values import Collection, Region, Scalar, Span, Value

EVERYTHING = Region(spans=(Span(low=None, high=None),))
NOTHING = Region(spans=())


def order(a: Expr, b: Expr) -> int:
    """-1, 0 or 1 as a is below, at or above b; `Undecided` where they are no real constants."""
    difference = algebra.subtract(a, b)
    value = algebra.as_fraction(difference)
    if value is None:
        real = numeric.real_value(difference)
        if real is None:
            raise Undecided("the ends of an interval are no real numbers")
        return (real > 0) - (real < 0)
    return (value > 0) - (value < 0)


def is_infinite(expr: Expr) -> int:
    """1 and -1 for the infinities, else 0."""
    if algebra.key_of(expr) == algebra.key_of(algebra.INFINITY):
        return 1
    return -1 if algebra.key_of(expr) == algebra.key_of(algebra.negate(algebra.INFINITY)) else 0


def of_collection(value: Collection) -> Region | None:
    """The interval that brackets around two numbers may mean, or the points of a set; None where it is neither."""
    exprs = [item.expr for item in value.items if isinstance(item, Scalar)]
    if len(exprs) != len(value.items) or any(algebra.symbols(expr) for expr in exprs):
        return None
    if value.kind in ("set", "list"):
        return united([Span(low=expr, high=expr, has_low=True, has_high=True) for expr in exprs])
    if len(exprs) != 2 or value.brackets == "⟨⟩":
        return None
    low, high = exprs
    if is_infinite(low) == 1 or is_infinite(high) == -1:
        return None
    span = Span(
        low=None if is_infinite(low) else low,
        high=None if is_infinite(high) else high,
        has_low=value.brackets[0] == "[" and not is_infinite(low),
        has_high=value.brackets[-1] == "]" and not is_infinite(high),
    )
    return None if _is_empty(span) else Region(spans=(span,))


def of(value: Value) -> Region:
    """A value as a set of reals; `Unreadable` where it is none."""
    region = value if isinstance(value, Region) else of_collection(value) if isinstance(value, Collection) else None
    if region is None:
        raise Unreadable("a set operation on what is no set of real numbers")
    return region


def of_comparison(sign: str, bound: Expr) -> Region:
    """What `x SIGN bound` says of x."""
    if is_infinite(bound):
        return EVERYTHING if (is_infinite(bound) == 1) == (sign in ("<", "≤")) else NOTHING
    if sign == "≠":
        return Region(spans=(Span(low=None, high=bound), Span(low=bound, high=None)))
    if sign in ("<", "≤"):
        return Region(spans=(Span(low=None, high=bound, has_high=sign == "≤"),))
    return Region(spans=(Span(low=bound, high=None, has_low=sign == "≥"),))


def union(a: Region, b: Region) -> Region:
    """All of both."""
    return united([*a.spans, *b.spans])


def intersection(a: Region, b: Region) -> Region:
    """What is in both."""
    return united([span for left in a.spans for right in b.spans if not _is_empty(span := _common(left, right))])


def without(a: Region, b: Region) -> Region:
    """What is in a and not in b."""
    rest = a
    for span in b.spans:
        below = Span(low=None, high=span.low, has_high=not span.has_low) if span.low is not None else None
        above = Span(low=span.high, high=None, has_low=not span.has_high) if span.high is not None else None
        rest = intersection(rest, Region(spans=tuple(side for side in (below, above) if side is not None)))
    return rest


def united(spans: list[Span]) -> Region:
    """Sort spans, and join those that touch."""
    if len(spans) > MOST_ITEMS:
        raise TooBig(f"a union of more than {MOST_ITEMS} intervals")
    merged: list[Span] = []
    for span in _sorted(spans):
        if merged and _touch(merged[-1], span):
            merged[-1] = _hull(merged[-1], span)
        else:
            merged.append(span)
    return Region(spans=tuple(merged))


def _sorted(spans: list[Span]) -> list[Span]:
    found: list[Span] = []
    for span in spans:
        at = next((k for k, other in enumerate(found) if _low_order(span, other) < 0), len(found))
        found.insert(at, span)
    return found


def _low_order(a: Span, b: Span) -> int:
    if a.low is None or b.low is None:
        return (b.low is None) - (a.low is None)
    return order(a.low, b.low) or b_first(a.has_low, b.has_low)


def b_first(a_has: bool, b_has: bool) -> int:
    """A closed lower end comes before an open one at the same place."""
    return int(b_has) - int(a_has)


def _touch(a: Span, b: Span) -> bool:
    if a.high is None or b.low is None:
        return True
    where = order(b.low, a.high)
    return where < 0 or (where == 0 and (a.has_high or b.has_low))


def _hull(a: Span, b: Span) -> Span:
    if a.high is None or b.high is None:
        return Span(low=a.low, high=None, has_low=a.has_low)
    where = order(a.high, b.high)
    last = a if where > 0 else b
    has_high = (a.has_high or b.has_high) if where == 0 else last.has_high
    return Span(low=a.low, high=last.high, has_low=a.has_low, has_high=has_high)


def _common(a: Span, b: Span) -> Span:
    low, has_low = a.low, a.has_low
    if low is None or (b.low is not None and order(b.low, low) > 0):
        low, has_low = b.low, b.has_low
    elif b.low is not None and order(b.low, low) == 0:
        has_low = a.has_low and b.has_low
    high, has_high = a.high, a.has_high
    if high is None or (b.high is not None and order(b.high, high) < 0):
        high, has_high = b.high, b.has_high
    elif b.high is not None and order(b.high, high) == 0:
        has_high = a.has_high and b.has_high
    return Span(low=low, high=high, has_low=has_low, has_high=has_high)


def _is_empty(span: Span) -> bool:
    if span.low is None or span.high is None:
        return False
    where = order(span.low, span.high)
    return where > 0 or (where == 0 and not (span.has_low and span.has_high))


def linear(difference: Expr) -> tuple[str, Fraction, Expr] | None:
    """`(x, slope, root)` of an expression that is linear in its one symbol with a rational slope; None otherwise."""
    names = algebra.symbols(difference)
    if len(names) != 1 or difference.den != algebra.ONE:
        return None
    (name,) = names
    rest: dict[algebra.Monomial, Fraction] = {}
    slope = Fraction(0)
    for monomial, c in difference.num.items():
        if monomial and monomial[0][0].key == f"s:{name}" and len(monomial) == 1 and monomial[0][1] == 1:
            slope = c
        else:
            rest[monomial] = c
    remainder = Expr(rest, algebra.ONE)
    if not slope or algebra.symbols(remainder):
        return None
    return name, slope, algebra.divide(algebra.negate(remainder), algebra.constant(slope))
