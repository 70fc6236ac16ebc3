"""Functions on exact expressions: what has an exact value gets it, the rest stays an atom for `numeric`."""

from collections.abc import Callable
from fractions import Fraction
from math import comb, factorial, gcd, lcm

from burnish.rewards.math import algebra, numeric
from burnish.rewards.math.algebra import Expr, atom, constant, divide, multiply, negate, power, subtract
from burnish.rewards.math.limits import Unreadable, spend

LARGEST_FACTORIAL = 1_200
HALF = constant(Fraction(1, 2))


def call(name: str, args: list[Expr]) -> Expr:
    """Apply a named function."""
    if name.startswith("call "):
        return atom("function", name, *args)
    if name in SEVERAL:
        return _of_whole_numbers(name, args)
    if name in ("root", "log_base", "binom"):
        if len(args) != 2:
            raise Unreadable(f"{name} takes two arguments")
        return {"root": _root, "log_base": _log_base, "binom": _binomial}[name](args[0], args[1])
    if len(args) != 1:
        raise Unreadable(f"{name} takes one argument")
    if name not in ONE:
        raise Unreadable(f"{name} is no function that is read here")
    return ONE[name](args[0])


def factorial_of(n: Expr) -> Expr:
    """`n!`; what is too large to write out stays an atom."""
    value = algebra.as_int(n)
    if value is None or value > LARGEST_FACTORIAL:
        return atom("function", "factorial", n)
    if value < 0:
        raise Unreadable("the factorial of a negative number")
    spend(value)
    return constant(factorial(value))


def _root(inside: Expr, degree: Expr) -> Expr:
    n = algebra.as_int(degree)
    if n is None or n == 0:
        return power(inside, divide(constant(1), degree))
    return power(inside, constant(Fraction(1, n)))


def _log_base(inside: Expr, base: Expr) -> Expr:
    return divide(_ln(inside), _ln(base))


def _ln(x: Expr) -> Expr:
    """Of a positive rational times e to some power: a sum over primes."""
    if not x.num:
        raise Unreadable("the logarithm of zero")
    if len(x.num) == 1 and x.den == algebra.ONE:
        ((monomial, c),) = x.num.items()
        if c > 0 and all(each.kind in ("prime", "constant") and each.name in ("e", each.name) for each, _ in monomial):
            total = constant(0)
            for prime, e in [*algebra.factors(c.numerator), *((p, -e) for p, e in algebra.factors(c.denominator))]:
                total = algebra.add(total, multiply(constant(e), atom("function", "ln", constant(prime))))
            for each, e in monomial:
                if each.key in ("c:i", "c:oo"):
                    return atom("function", "ln", x)
                inner = (
                    constant(1)
                    if each.key == "c:e"
                    else atom("function", "ln", Expr({((each, Fraction(1)),): Fraction(1)}, algebra.ONE))
                )
                if each.kind == "prime":
                    inner = atom("function", "ln", constant(int(each.name)))
                total = algebra.add(total, multiply(constant(e), inner))
            return total
        if c == 1 and len(monomial) == 1 and monomial[0][0].kind == "power" and monomial[0][0].args[0] is algebra.E:
            return multiply(monomial[0][0].args[1], constant(monomial[0][1]))
    return atom("function", "ln", x)


def _log(x: Expr) -> Expr:
    return _log_base(x, constant(10))


def _absolute(x: Expr) -> Expr:
    value = algebra.as_fraction(x)
    if value is not None:
        return constant(abs(value))
    real = numeric.real_value(x)
    if real is not None:
        return negate(x) if real < 0 else x
    re, im = _parts(x)
    if re is not None and im is not None:
        return power(algebra.add(multiply(re, re), multiply(im, im)), HALF)
    return atom("function", "abs", x)


def _parts(x: Expr) -> tuple[Expr | None, Expr | None]:
    """Real and imaginary part of a constant a + bi in radicals; None where it is not of that form."""
    if x.den != algebra.ONE or not algebra.is_canonical(x) or algebra.symbols(x):
        return None, None
    re: dict[algebra.Monomial, Fraction] = {}
    im: dict[algebra.Monomial, Fraction] = {}
    for monomial, c in x.num.items():
        rest = tuple(pair for pair in monomial if pair[0].key != "c:i")
        (re if len(rest) == len(monomial) else im)[rest] = c
    return Expr(re, algebra.ONE), Expr(im, algebra.ONE)


def _rounded(name: str) -> Callable[[Expr], Expr]:
    def to_whole(x: Expr) -> Expr:
        value = algebra.as_fraction(x)
        if value is None:
            real = numeric.real_value(x)
            if real is None:
                return atom("function", name, x)
            value = Fraction(real)
        return constant(value.__floor__() if name == "floor" else value.__ceil__())

    return to_whole


def _binomial(n: Expr, k: Expr) -> Expr:
    whole, part = algebra.as_int(n), algebra.as_int(k)
    if whole is not None and part is not None and 0 <= whole <= 4 * LARGEST_FACTORIAL:
        spend(whole)
        return constant(comb(whole, part) if part >= 0 else 0)
    if part is None or not 0 <= part <= 12:
        return atom("function", "binom", n, k)
    product = constant(1)
    for j in range(part):
        product = multiply(product, divide(subtract(n, constant(j)), constant(j + 1)))
    return product


def _of_whole_numbers(name: str, args: list[Expr]) -> Expr:
    if name in ("max", "min"):
        values = [algebra.as_fraction(arg) for arg in args]
        known = [value for value in values if value is not None]
        if len(known) != len(args):
            return atom("function", name, *sorted(args, key=algebra.key_of))
        return constant(max(known) if name == "max" else min(known))
    whole = [algebra.as_int(arg) for arg in args]
    known_whole = [value for value in whole if value is not None]
    if len(known_whole) != len(args):
        return atom("function", name, *sorted(args, key=algebra.key_of))
    return constant(gcd(*known_whole) if name == "gcd" else lcm(*known_whole))


def _atom(name: str) -> Callable[[Expr], Expr]:
    return lambda x: atom("function", name, x)


def _sin(x: Expr) -> Expr:
    return constant(0) if not x.num else atom("function", "sin", x)


def _cos(x: Expr) -> Expr:
    return constant(1) if not x.num else atom("function", "cos", x)


def _exp(x: Expr) -> Expr:
    return power(algebra.E, x)


def _half_sum(x: Expr, sign: int) -> Expr:
    return multiply(HALF, algebra.add(_exp(x), multiply(constant(sign), _exp(negate(x)))))


SEVERAL = frozenset({"max", "min", "gcd", "lcm"})
ONE: dict[str, Callable[[Expr], Expr]] = {
    "sin": _sin,
    "cos": _cos,
    "tan": lambda x: divide(_sin(x), _cos(x)),
    "cot": lambda x: divide(_cos(x), _sin(x)),
    "sec": lambda x: divide(constant(1), _cos(x)),
    "csc": lambda x: divide(constant(1), _sin(x)),
    "arcsin": _atom("arcsin"),
    "arccos": _atom("arccos"),
    "arctan": _atom("arctan"),
    "asin": _atom("arcsin"),
    "acos": _atom("arccos"),
    "atan": _atom("arctan"),
    "sinh": lambda x: _half_sum(x, -1),
    "cosh": lambda x: _half_sum(x, 1),
    "tanh": lambda x: divide(_half_sum(x, -1), _half_sum(x, 1)),
    "ln": _ln,
    "log": _log,
    "lg": _log,
    "exp": _exp,
    "cbrt": lambda x: _root(x, constant(3)),
    "abs": _absolute,
    "floor": _rounded("floor"),
    "ceil": _rounded("ceil"),
}
