"""Whether an expression is zero, by its value to more than a hundred digits: what decides where no normal form does.

Real arithmetic on `Decimal`, complex arithmetic on pairs of them. An expression with symbols is evaluated at fixed
points; where all parts are real at some points, those alone count (so `ln x^2` and `2 ln x` are equal, and
`sqrt(x^2)` and `x` are not). Digits beyond those that a sum loses to cancellation are asked for: a sum that
cancels to within 30 digits of the precision is zero, and one in between is undecided.

Decisions: two values that agree to a hundred digits more than either was written with are taken as equal. That is
no proof, but no short expression is known to come so near another without being it.
Not covered: functions of complex arguments other than powers, exponentials and logarithms.
"""

from decimal import Context, Decimal, DivisionByZero, InvalidOperation, Overflow, Underflow, localcontext
from functools import lru_cache
from typing import NamedTuple

from burnish.rewards.math.algebra import Atom, Expr, Poly, atoms, symbols
from burnish.rewards.math.limits import TooBig, Undecided, spend

BASE_DIGITS = 140
MOST_DIGITS = 1_200
LOST_DIGITS = 30
LARGEST_ARGUMENT = Decimal(1_000_000)
LARGEST_EXPONENT = 50_000_000
NUM_POINTS = 14
NUM_WANTED = 3
POINTS = tuple("1.37 -1.61 0.43 -0.59 2.81 -2.47 3.19 1.93 -3.07 0.77 2.29 -0.31 0.19 4.13".split())


class Complex(NamedTuple):
    """A number with its imaginary part."""

    re: Decimal
    im: Decimal


class _NoValue(Exception):
    """Not real here, or a division by zero: this point does not count."""


ZERO = Decimal(0)


def is_zero(expr: Expr) -> bool:
    """Whether the value is zero; `Undecided` where that is not settled."""
    names = sorted(symbols(expr))
    with localcontext(_context(_digits(expr))):
        points = [dict(zip(names, _point(k, len(names)), strict=True)) for k in range(NUM_POINTS if names else 1)]
        for is_real in (True, False):
            answers = _answers(expr.num, points, is_real)
            if False in answers:
                return False
            if len(answers) >= min(NUM_WANTED, len(points)):
                return True
    raise Undecided("no value at enough points")


def has_value(expr: Expr) -> bool:
    """Whether the expression, symbols at a point, has a value that can be worked out."""
    point = dict.fromkeys(sorted(symbols(expr)), Decimal(POINTS[0]))
    with localcontext(_context(_digits(expr))):
        try:
            _value_of(expr.num, point, False)
            _value_of(expr.den, point, False)
        except (_NoValue, Undecided, TooBig, Overflow, Underflow, InvalidOperation, DivisionByZero):
            return False
    return True


def real_value(expr: Expr) -> Decimal | None:
    """The value of a real constant to more than a hundred digits; None where there is none."""
    if symbols(expr):
        return None
    with localcontext(_context(_digits(expr))):
        try:
            below = _value_of(expr.den, {}, True)
            return (_value_of(expr.num, {}, True).re / below.re) if below.re else None
        except (_NoValue, Undecided, TooBig, Overflow, InvalidOperation, DivisionByZero):
            return None


def _context(num_digits: int) -> Context:
    return Context(
        prec=num_digits, Emax=10**12, Emin=-(10**12), traps=[Overflow, InvalidOperation, DivisionByZero, Underflow]
    )


def _digits(expr: Expr) -> int:
    """Digits to work with: those of all coefficients, and a hundred."""
    polys = [expr.num, expr.den, *(p for a in atoms(expr) for arg in a.args for p in (arg.num, arg.den))]
    bits = sum(c.numerator.bit_length() + c.denominator.bit_length() for poly in polys for c in poly.values())
    wanted = BASE_DIGITS + bits // 3
    if wanted > MOST_DIGITS:
        wanted = MOST_DIGITS
    return wanted


def _point(k: int, num: int) -> list[Decimal]:
    return [Decimal(POINTS[(k * (2 * j + 1) + j * 5) % len(POINTS)]) + Decimal(j) / 97 for j in range(num)]


def _answers(poly: Poly, points: list[dict[str, Decimal]], is_real: bool) -> list[bool]:
    found: list[bool] = []
    for point in points:
        try:
            value = _value_of(poly, point, is_real)
        except _NoValue:
            continue
        except (Overflow, Underflow, InvalidOperation, DivisionByZero) as error:
            raise Undecided(f"a value out of range ({type(error).__name__})") from None
        found.append(value == (ZERO, ZERO))
        if not found[-1] or len(found) >= 2 * NUM_WANTED:
            break
    return found


def _value_of(poly: Poly, point: dict[str, Decimal], is_real: bool) -> Complex:
    """The sum of the terms; exactly zero where they cancel to within the precision."""
    digits = _precision()
    total, largest = Complex(ZERO, ZERO), ZERO
    for monomial, c in poly.items():
        term = Complex(Decimal(c.numerator) / Decimal(c.denominator), ZERO)
        for each, e in monomial:
            term = _times(term, _atom_power(each, Decimal(e.numerator), Decimal(e.denominator), point, is_real))
        total = Complex(total.re + term.re, total.im + term.im)
        largest = max(largest, _size(term))
    size = _size(total)
    if size <= largest.scaleb(LOST_DIGITS - digits):
        return Complex(ZERO, ZERO)
    if size <= largest.scaleb(2 * LOST_DIGITS - digits):
        raise Undecided("two values that are nearer than the digits tell apart")
    small = size.scaleb(LOST_DIGITS - digits)
    return Complex(total.re if abs(total.re) > small else ZERO, total.im if abs(total.im) > small else ZERO)


def _atom_power(each: Atom, above: Decimal, below: Decimal, point: dict[str, Decimal], is_real: bool) -> Complex:
    spend(60 * _precision() // BASE_DIGITS)
    if each.kind == "constant" and each.name == "i":
        if is_real:
            raise _NoValue
        base = Complex(ZERO, Decimal(1))
    else:
        base = _atom_value(each, point, is_real)
    return _power(base, above, below, is_real)


def _atom_value(each: Atom, point: dict[str, Decimal], is_real: bool) -> Complex:
    if each.kind == "symbol":
        return Complex(point[each.name], ZERO)
    if each.kind == "prime":
        return Complex(Decimal(each.name), ZERO)
    if each.kind == "constant":
        if each.name == "oo":
            raise Undecided("infinity inside an expression")
        return Complex(_pi(_precision()) if each.name == "pi" else Decimal(1).exp(), ZERO)
    args = [_quotient(arg, point, is_real) for arg in each.args]
    if each.kind == "base":
        return args[0]
    if each.kind == "power":
        return _general_power(args[0], args[1], is_real)
    return _function(each.name, args, is_real)


def _quotient(expr: Expr, point: dict[str, Decimal], is_real: bool) -> Complex:
    above, below = _value_of(expr.num, point, is_real), _value_of(expr.den, point, is_real)
    return _times(above, _inverse(below))


def _function(name: str, args: list[Complex], is_real: bool) -> Complex:
    value = args[0]
    if name == "ln":
        return _ln(value, is_real)
    if name == "abs":
        return Complex(_size(value), ZERO)
    if value.im:
        raise Undecided(f"{name} of a complex number")
    if name not in REAL_FUNCTIONS:
        raise Undecided(f"{name} has no value here")
    if name in ("arcsin", "arccos") and abs(value.re) > 1:
        raise _NoValue
    spend(1_000 * _precision() // BASE_DIGITS)
    return Complex(_chopped(REAL_FUNCTIONS[name](value.re)), ZERO)


def _times(a: Complex, b: Complex) -> Complex:
    if not a.im and not b.im:
        return Complex(a.re * b.re, ZERO)
    return Complex(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)


def _inverse(a: Complex) -> Complex:
    if not a.re and not a.im:
        raise _NoValue
    if not a.im:
        return Complex(1 / a.re, ZERO)
    square = a.re * a.re + a.im * a.im
    return Complex(a.re / square, -a.im / square)


def _size(a: Complex) -> Decimal:
    return abs(a.re) if not a.im else (a.re * a.re + a.im * a.im).sqrt()


def _power(base: Complex, above: Decimal, below: Decimal, is_real: bool) -> Complex:
    if below == 1:
        if above == 1:
            return base
        if not base.im:
            if not base.re and above < 0:
                raise _NoValue
            return Complex(_decimal_power(base.re, above), ZERO)
        if abs(above) <= 64:
            result = Complex(Decimal(1), ZERO)
            for _ in range(int(abs(above))):
                result = _times(result, base)
            return result if above > 0 else _inverse(result)
    if not base.re and not base.im:
        if above < 0:
            raise _NoValue
        return base
    if not base.im and base.re < 0 and below % 2 == 1:
        size = _decimal_power(-base.re, above / below)
        return Complex(-size if above % 2 else size, ZERO)
    return _general_power(base, Complex(above / below, ZERO), is_real)


def _general_power(base: Complex, exponent: Complex, is_real: bool) -> Complex:
    if not base.im and not exponent.im and base.re > 0:
        return Complex(_decimal_power(base.re, exponent.re), ZERO)
    if not base.re and not base.im:
        raise _NoValue
    if not base.im and not exponent.im and exponent.re == exponent.re.to_integral_value():
        return Complex(_decimal_power(base.re, exponent.re), ZERO)
    product = _times(exponent, _ln(base, is_real))
    if abs(product.re) > LARGEST_ARGUMENT or abs(product.im) > LARGEST_ARGUMENT:
        raise Undecided("a power out of range")
    size = product.re.exp()
    if not product.im:
        return Complex(size, ZERO)
    return Complex(size * _chopped(_cos(product.im)), size * _chopped(_sin(product.im)))


def _chopped(x: Decimal) -> Decimal:
    """Zero where nothing but rounding is left of a function's value."""
    return ZERO if abs(x) < Decimal(1).scaleb(LOST_DIGITS - _precision()) else x


def _decimal_power(base: Decimal, exponent: Decimal) -> Decimal:
    if base and abs(exponent) * (abs(base.adjusted()) + 1) > LARGEST_EXPONENT * 10**4:
        raise Undecided("a power out of range")
    if exponent == Decimal("0.5"):
        return base.sqrt()
    return base**exponent


def _ln(value: Complex, is_real: bool) -> Complex:
    if not value.im and value.re > 0:
        return Complex(_chopped(value.re.ln()), ZERO)
    if is_real or (not value.re and not value.im):
        raise _NoValue
    return Complex(_size(value).ln(), _angle(value))


def _angle(value: Complex) -> Decimal:
    pi = _pi(_precision())
    if not value.re:
        return pi / 2 if value.im > 0 else -pi / 2
    angle = _arctan(value.im / value.re)
    if value.re > 0:
        return angle
    return angle + pi if value.im >= 0 else angle - pi


def _precision() -> int:
    with localcontext() as context:
        return context.prec


@lru_cache(maxsize=64)
def _pi(num_digits: int) -> Decimal:
    """By Machin: 16 arctan(1/5) - 4 arctan(1/239), in whole numbers."""

    def arctan_of_inverse(n: int) -> int:
        term = total = 10 ** (num_digits + 10) // n
        k = 1
        while term:
            term //= n * n
            k += 2
            total += term // k if k % 4 == 1 else -(term // k)
        return total

    whole = 16 * arctan_of_inverse(5) - 4 * arctan_of_inverse(239)
    return Decimal(whole).scaleb(-(num_digits + 10)) + 0


def _sin(x: Decimal) -> Decimal:
    if abs(x) > LARGEST_ARGUMENT:
        raise Undecided("an angle out of range")
    turn = 2 * _pi(_precision())
    x -= (x / turn).to_integral_value() * turn
    term = total = x
    k, smallest = 1, Decimal(1).scaleb(-_precision() - 5)
    while abs(term) > smallest:
        k += 2
        term *= -x * x / (k * (k - 1))
        total += term
    return total


def _cos(x: Decimal) -> Decimal:
    return _sin(x + _pi(_precision()) / 2)


def _arctan(x: Decimal) -> Decimal:
    num_halvings = 0
    while abs(x) > Decimal("0.1"):
        x, num_halvings = x / (1 + (1 + x * x).sqrt()), num_halvings + 1
    term = total = x
    k, smallest = 1, Decimal(1).scaleb(-_precision() - 5)
    while abs(term) > smallest:
        k += 2
        term *= -x * x
        total += term / k
    return total * 2**num_halvings


def _arcsin(x: Decimal) -> Decimal:
    if abs(x) == 1:
        return x * _pi(_precision()) / 2
    return _arctan(x / (1 - x * x).sqrt())


REAL_FUNCTIONS = {
    "sin": _sin,
    "cos": _cos,
    "arctan": _arctan,
    "arcsin": _arcsin,
    "arccos": lambda x: _pi(_precision()) / 2 - _arcsin(x),
    "floor": lambda x: x.to_integral_value("ROUND_FLOOR"),
    "ceil": lambda x: x.to_integral_value("ROUND_CEILING"),
}
