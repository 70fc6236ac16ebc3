"""Whether two expressions are equal: by normal form where that settles it, else by value."""

from fractions import Fraction

from burnish.rewards.math import algebra, numeric
from burnish.rewards.math.algebra import Expr


def is_same_expr(a: Expr, b: Expr) -> bool:
    """Compare exactly; `Undecided` where that was not settled."""
    difference = algebra.subtract(a, b)
    if not difference.num:
        return True
    return not algebra.is_canonical(difference) and numeric.is_zero(difference)


def is_multiple(a: Expr, b: Expr) -> int:
    """The sign of the rational by which `a = 0` and `b = 0` are one equation; 0 where they are not."""
    if not a.num or not b.num:
        return int(not a.num and not b.num)
    left, right = _without_fractions(a), _without_fractions(b)
    monomial, c = min(left.num.items(), key=lambda term: str([(each.key, e) for each, e in term[0]]))
    other = right.num.get(monomial)
    if other is None:
        return 0
    scale = algebra.constant(c / other)
    return ((c / other > 0) - (c / other < 0)) if is_same_expr(left, algebra.multiply(scale, right)) else 0


def _without_fractions(expr: Expr) -> Expr:
    """The numerator, multiplied by what its symbols are divided by."""
    lowest: dict[str, Fraction] = {}
    for monomial in expr.num:
        for each, e in monomial:
            if each.kind == "symbol":
                lowest[each.name] = min(lowest.get(each.name, Fraction(0)), e)
    whole = Expr(expr.num, algebra.ONE)
    for name, e in lowest.items():
        whole = algebra.multiply(whole, algebra.power(algebra.symbol(name), algebra.constant(-e)))
    return whole
