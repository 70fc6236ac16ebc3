"""Exact expressions in one normal form: a fraction of two polynomials over atoms, with rational coefficients.

An atom is a symbol, pi, e, i, infinity, a prime (for roots), or what is not taken apart: a root of a sum, a power with
a symbolic exponent, a function. Exponents are fractions. Primes keep exponents in [0, 1), the whole part going into
the coefficient, and i keeps 0 or 1; so sums of roots of integers have one form (roots of different
square-free numbers are linearly independent over the rationals).

Decisions: fractions are not reduced by a polynomial gcd; `a/b = c/d` is asked as `ad - bc = 0`. A power too long to
write out stays a power of primes. Odd roots of negative numbers are the real ones. Where atoms are left that may depend
on each other, `is_canonical` is false and `numeric` decides.
Not covered: gcds, factoring, assumptions about symbols.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from math import comb, floor
from typing import Literal

from burnish.rewards.math.limits import MOST_BITS, MOST_TERMS, TooBig, Unreadable, spend

Kind = Literal["symbol", "constant", "prime", "base", "power", "function"]

LARGEST_SMALL_PRIME = 10_000
MOST_EXPONENT = 10**15
LONGEST_KEY = 20_000


@dataclass(frozen=True, slots=True)
class Atom:
    """What is not taken apart; two atoms are one if their keys are."""

    key: str
    kind: Kind = field(compare=False)
    name: str = field(compare=False)
    args: tuple["Expr", ...] = field(default=(), compare=False)


Monomial = tuple[tuple[Atom, Fraction], ...]
Poly = Mapping[Monomial, Fraction]


@dataclass(frozen=True, slots=True, eq=False)
class Expr:
    """`num / den`; a single-term `den` is always 1."""

    num: Poly
    den: Poly

    def __repr__(self) -> str:
        return key_of(self)


ONE: Poly = {(): Fraction(1)}


def constant(value: Fraction | int) -> Expr:
    """A rational number."""
    return Expr({(): Fraction(value)} if value else {}, ONE)


def atom(kind: Kind, name: str, *args: Expr) -> Expr:
    """One atom as an expression."""
    return Expr({((_atom(kind, name, *args), Fraction(1)),): Fraction(1)}, ONE)


def _atom(kind: Kind, name: str, *args: Expr) -> Atom:
    key = f"{kind[0]}:{name}" + (f"({','.join(key_of(arg) for arg in args)})" if args else "")
    if len(key) > LONGEST_KEY:
        raise TooBig("an expression inside a function that is too long")
    return Atom(key, kind, name, args)


def symbol(name: str) -> Expr:
    """A variable."""
    return atom("symbol", name)


PI, E, IMAGINARY, INFINITY = (atom("constant", name) for name in ("pi", "e", "i", "oo"))


def key_of(expr: Expr) -> str:
    """A text that is equal for equal normal forms."""
    spend(len(expr.num) + len(expr.den))
    below = "" if expr.den == ONE else f"/({_poly_key(expr.den)})"
    return _poly_key(expr.num) + below


def _poly_key(poly: Poly) -> str:
    terms = ("*".join([str(c), *(f"{a.key}^{e}" for a, e in m)]) for m, c in poly.items())
    return "+".join(sorted(terms)) or "0"


def atoms(expr: Expr) -> Iterator[Atom]:
    """All atoms, those inside others included."""
    for poly in (expr.num, expr.den):
        for monomial in poly:
            for each, _ in monomial:
                yield each
                for arg in each.args:
                    yield from atoms(arg)


def symbols(expr: Expr) -> set[str]:
    """The names of all variables."""
    return {each.name for each in atoms(expr) if each.kind == "symbol"}


def is_canonical(expr: Expr) -> bool:
    """Whether the form is zero exactly if the value is."""
    return all(
        each.kind in ("symbol", "constant") or (each.kind == "prime" and int(each.name) < LARGEST_SMALL_PRIME**2)
        for each in atoms(expr)
    )


def as_fraction(expr: Expr) -> Fraction | None:
    """The value of a rational number, None for anything else."""
    if not expr.num:
        return Fraction(0)
    return expr.num.get(()) if expr.den == ONE and len(expr.num) == 1 else None


def as_int(expr: Expr) -> int | None:
    """The value of a whole number, None for anything else."""
    value = as_fraction(expr)
    return int(value) if value is not None and value.denominator == 1 else None


def add(a: Expr, b: Expr) -> Expr:
    """`a + b`."""
    if a.den == b.den:
        return _over(_sum(a.num, b.num), a.den)
    return _over(_sum(_product(a.num, b.den), _product(b.num, a.den)), _product(a.den, b.den))


def negate(a: Expr) -> Expr:
    """`-a`."""
    return Expr({monomial: -c for monomial, c in a.num.items()}, a.den)


def subtract(a: Expr, b: Expr) -> Expr:
    """`a - b`."""
    return add(a, negate(b))


def multiply(a: Expr, b: Expr) -> Expr:
    """`a * b`."""
    return _over(_product(a.num, b.num), _product(a.den, b.den))


def divide(a: Expr, b: Expr) -> Expr:
    """`a / b`."""
    if not b.num:
        raise Unreadable("a division by zero")
    return _over(_product(a.num, b.den), _product(a.den, b.num))


def power(base: Expr, exponent: Expr) -> Expr:
    """`base ^ exponent`."""
    value = as_fraction(exponent)
    if value is None:
        if as_fraction(base) == 1:
            return base
        return atom("power", "", base, exponent)
    if value.denominator == 1:
        return _whole_power(base, int(value))
    return _fractional_power(base, value)


def _over(num: Poly, den: Poly) -> Expr:
    if not num:
        return constant(0)
    if len(den) == 1:
        ((monomial, c),) = den.items()
        if monomial or c != 1:
            num = _product(num, {tuple((each, -e) for each, e in monomial): 1 / c})
        return Expr(num, ONE)
    return Expr(num, den)


def _sum(a: Poly, b: Poly) -> Poly:
    total = dict(a)
    spend(len(b) + 1)
    for monomial, c in b.items():
        total[monomial] = total.get(monomial, Fraction(0)) + c
    return _checked({monomial: c for monomial, c in total.items() if c})


def _product(a: Poly, b: Poly) -> Poly:
    if b == ONE:
        return a
    spend(2 * len(a) * len(b) * (1 + (_bits(a) + _bits(b)) // 512) + 1)
    total: dict[Monomial, Fraction] = {}
    for left, c in a.items():
        for right, d in b.items():
            monomial, factor = _joined(left, right)
            total[monomial] = total.get(monomial, Fraction(0)) + c * d * factor
    return _checked({monomial: c for monomial, c in map(_pulled, total.items()) if c})


def _bits(poly: Poly) -> int:
    return max((c.numerator.bit_length() + c.denominator.bit_length() for c in poly.values()), default=0)


def _checked(poly: Poly) -> Poly:
    if len(poly) > MOST_TERMS or _bits(poly) > 2 * MOST_BITS:
        raise TooBig("a value of too many terms or digits")
    return poly


def _joined(left: Monomial, right: Monomial) -> tuple[Monomial, Fraction]:
    if not right:
        return left, Fraction(1)
    exponents = dict(left)
    for each, e in right:
        exponents[each] = exponents.get(each, Fraction(0)) + e
    return _normal(exponents.items())


def _normal(exponents: Iterable[tuple[Atom, Fraction]]) -> tuple[Monomial, Fraction]:
    """Whole powers of primes and of i go into the factor."""
    factor, kept = Fraction(1), list[tuple[Atom, Fraction]]()
    for each, exponent in exponents:
        e = exponent
        if each.kind == "prime":
            whole, prime = floor(e), int(each.name)
            if whole and abs(whole) * prime.bit_length() <= MOST_BITS:
                factor, e = factor * Fraction(prime) ** whole, e - whole
        elif each.key == "c:i" and e.denominator == 1:
            factor, e = factor * (-1 if e % 4 >= 2 else 1), e % 2
        if e:
            kept.append((each, e))
    return tuple(sorted(kept, key=lambda pair: pair[0].key)), factor


def _pulled(term: tuple[Monomial, Fraction]) -> tuple[Monomial, Fraction]:
    """Beside a power of a prime too long to write out, the coefficient keeps no such prime."""
    monomial, c = term
    if not c or all(each.kind != "prime" or abs(e) < 1 for each, e in monomial):
        return term
    exponents = dict(monomial)
    for each, e in monomial:
        if each.kind == "prime" and abs(e) >= 1:
            prime = int(each.name)
            while c.numerator % prime == 0:
                spend(5)
                c, exponents[each] = c / prime, exponents[each] + 1
            while c.denominator % prime == 0:
                spend(5)
                c, exponents[each] = c * prime, exponents[each] - 1
    return tuple((each, exponents[each]) for each, _ in monomial if exponents[each]), c


def _whole_power(base: Expr, exponent: int) -> Expr:
    if exponent == 0:
        if not base.num:
            raise Unreadable("zero to the power of zero")
        return constant(1)
    if exponent < 0:
        return _whole_power(divide(constant(1), base), -exponent)
    if not base.num or as_fraction(base) == 1:
        return base
    if len(base.num) == 1 and base.den == ONE:
        return _monomial_power(base, Fraction(exponent))
    num_terms = max(len(base.num), len(base.den))
    if exponent > 200 or comb(exponent + num_terms - 1, num_terms - 1) > MOST_TERMS // 2:
        return _opaque_power(base, Fraction(exponent))
    result = base
    for bit in bin(exponent)[3:]:
        result = multiply(result, result)
        if bit == "1":
            result = multiply(result, base)
    return result


def _monomial_power(base: Expr, exponent: Fraction) -> Expr:
    """A single term to a whole power, or a positive term of constants to any."""
    ((monomial, c),) = base.num.items()
    if exponent.numerator > MOST_EXPONENT:
        raise TooBig("an exponent of too many digits")
    pairs = [(each, e * exponent) for each, e in monomial]
    if exponent.denominator == 1 and _bits({(): c}) * exponent.numerator <= MOST_BITS:
        kept, factor = _normal(pairs)
        return Expr({kept: factor * c**exponent.numerator}, ONE)
    sign = -1 if c < 0 and exponent.numerator % 2 else 1
    exponents = dict(pairs)
    for prime, e in _factors_of_fraction(abs(c)):
        each = _atom("prime", str(prime))
        exponents[each] = exponents.get(each, Fraction(0)) + e * exponent
    kept, factor = _normal(exponents.items())
    return Expr(dict([_pulled((kept, factor * sign))]), ONE)


def _fractional_power(base: Expr, exponent: Fraction) -> Expr:
    if not base.num:
        if exponent < 0:
            raise Unreadable("a division by zero")
        return base
    if len(base.num) > 1 or base.den != ONE:
        return _opaque_power(base, exponent)
    if exponent < 0:
        return _fractional_power(divide(constant(1), base), -exponent)
    ((monomial, c),) = base.num.items()
    is_positive = {each for each, _ in monomial if each.kind == "prime" or each.key in ("c:pi", "c:e")}
    rest = tuple((each, e) for each, e in monomial if each not in is_positive)
    front = Expr({tuple(pair for pair in monomial if pair[0] in is_positive): abs(c)}, ONE)
    outside = constant(1)
    if c < 0 and not rest and exponent.denominator % 2:
        outside = constant((-1) ** exponent.numerator)
    elif c < 0 and not rest and exponent.denominator == 2:
        outside = _whole_power(IMAGINARY, exponent.numerator)
    elif c < 0 or (rest and not (len(rest) == 1 and abs(rest[0][1]) <= 1)):
        outside = _opaque_power(Expr({rest: Fraction(-1 if c < 0 else 1)}, ONE), exponent)
    elif rest:
        outside = Expr({((rest[0][0], rest[0][1] * exponent),): Fraction(1)}, ONE)
    return multiply(_monomial_power(front, exponent), outside)


def _opaque_power(base: Expr, exponent: Fraction) -> Expr:
    if abs(exponent.numerator) > MOST_EXPONENT:
        raise TooBig("an exponent of too many digits")
    return Expr({((_atom("base", "", base), exponent),): Fraction(1)}, ONE)


def _factors_of_fraction(value: Fraction) -> list[tuple[int, int]]:
    return [*factors(value.numerator), *((prime, -e) for prime, e in factors(value.denominator))]


def factors(number: int) -> list[tuple[int, int]]:
    """Small primes with their exponents; what is left last, as a perfect power if it is one."""
    found: list[tuple[int, int]] = []
    spend(1500 * (1 + number.bit_length() // 512))
    for prime in _small_primes():
        if prime * prime > number:
            break
        e = 0
        while number % prime == 0:
            spend(2)
            number, e = number // prime, e + 1
        if e:
            found.append((prime, e))
    if number > 1:
        root, e = _as_perfect_power(number)
        found.append((root, e))
    return found


@lru_cache(maxsize=1)
def _small_primes() -> tuple[int, ...]:
    is_prime = bytearray([1]) * LARGEST_SMALL_PRIME
    for n in range(2, 100):
        if is_prime[n]:
            is_prime[n * n :: n] = bytes(len(is_prime[n * n :: n]))
    return tuple(n for n in range(2, LARGEST_SMALL_PRIME) if is_prime[n])


def _as_perfect_power(number: int) -> tuple[int, int]:
    for e in (2, 3, 5, 7):
        root = _whole_root(number, e)
        if root**e == number:
            base, more = _as_perfect_power(root)
            return base, e * more
    return number, 1


def _whole_root(number: int, degree: int) -> int:
    spend(50 * (1 + number.bit_length() // 256))
    guess = 1 << -(-number.bit_length() // degree)
    while True:
        better = ((degree - 1) * guess + number // guess ** (degree - 1)) // degree
        if better >= guess:
            return guess
        guess = better
