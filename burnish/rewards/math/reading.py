"""From a text to a typed value: clean, split, parse, evaluate.

Decisions: a text of words alone is words (`Yes`, `no solution`), not a product of letters. A sign of plus-minus makes a
list of two. Sides of a chain of equations must all be equal but for one name, else the text contradicts itself and is
`Unreadable`. A unit inside a sum is an error, but for pure ones (percent, degree) and for one behind the whole sum.
"""

import re
from collections.abc import Callable

from burnish.rewards import units
from burnish.rewards.math import algebra, functions, regions
from burnish.rewards.math.algebra import Expr
from burnish.rewards.math.clean import cleaned
from burnish.rewards.math.equality import is_same_expr
from burnish.rewards.math.limits import MOST_CHARACTERS, MOST_ITEMS, TooBig, Unreadable
from burnish.rewards.math.parser import parse
from burnish.rewards.math.tokens import FUNCTIONS, GREEK, tokens
from burnish.rewards.math.tree import Node
from burnish.rewards.math.values import (
    Collection,
    Equation,
    Inequality,
    Matrix,
    Named,
    Ratio,
    Region,
    Scalar,
    Text,
    Value,
)  # fmt: skip
from burnish.rewards.units import PLAIN, Unit

PROSE = re.compile(r"[A-Za-z' -]+")
SHORT_PROSE = frozenset("yes no true false none odd even red blue and or".split())
BARE_UNIT = re.compile(
    r"(?P<value>.*[0-9)}]) (?P<unit>[msghLJNVWAKCF](?:\^\{?[23]\}?)?(?:/(?:s|h|m|L|g)(?:\^\{?[23]\}?)?)?)"
)
TIME_OF_DAY = re.compile(
    r"(?P<hour>[01]?[0-9]|2[0-3])(?:\s?:\s?(?P<minute>[0-5][0-9]))?\s?(?:\\(?:text|mathrm)\{)?\s?(?P<half>(?i:[ap]m))?\s?\}?"
)
MEANINGS: dict[str, Value] = {
    **dict.fromkeys(("no solution", "no solutions", "no real solution", "no real solutions"), regions.NOTHING),
    **dict.fromkeys(("empty set", "the empty set"), regions.NOTHING),
    **dict.fromkeys(("all real numbers", "all reals", "all real", "reals"), regions.EVERYTHING),
}
FLIPPED = {"<": ">", ">": "<", "≤": "≥", "≥": "≤", "≠": "≠"}
LARGEST_BASE = 36


def read(text: str) -> list[Value]:
    """The meanings of an answer: one, or two where a last letter may be a unit or a variable."""
    if len(text) > MOST_CHARACTERS:
        raise TooBig(f"an answer of {len(text)} characters; at most {MOST_CHARACTERS} are read")
    plain = cleaned(text)
    if not plain:
        raise Unreadable("no answer")
    if (words := _prose(plain)) is not None:
        return [MEANINGS.get(words.casefold(), Text(words=words))]
    if time_of_day := _time_of_day(plain):
        return [time_of_day, *_meanings(plain)]
    return _meanings(plain)


def _meanings(plain: str) -> list[Value]:
    trees = [parse(tokens(plain))]
    if match := BARE_UNIT.fullmatch(plain):
        trees.append(parse(tokens(f"{match['value']} {_as_unit(match['unit'])}")))
    return [evaluate(tree) for tree in trees]


def _time_of_day(plain: str) -> Text | None:
    """A time that is said by halves of the day, or that only the clock of 24 hours has, in one form (`3:00 pm`)."""
    match = TIME_OF_DAY.fullmatch(plain)
    if match is None or not (match["half"] or (match["minute"] and not 1 <= int(match["hour"]) <= 12)):
        return None
    hour, half = int(match["hour"]), match["half"] or ("am" if int(match["hour"]) < 12 else "pm")
    return Text(words=f"{(hour - 1) % 12 + 1}:{match['minute'] or '00'} {half.lower()}")


def read_as_list(text: str) -> Value | None:
    """`1,234` as the list of 1 and 234; None where the text holds no such number, or one with leading zeros."""
    plain = cleaned(text)
    if not re.fullmatch(r"[0-9]{1,3}(?:,[1-9][0-9]{2}){1,20}", plain):
        return None
    return Collection(brackets="", items=tuple(Scalar(expr=algebra.constant(int(part))) for part in plain.split(",")))


def _as_unit(written: str) -> str:
    return re.sub(r"([A-Za-z])", r"\\text{ \1}", written.replace("{", "").replace("}", ""))


def _prose(plain: str) -> str | None:
    """The words, where a text has nothing else."""
    words = re.sub(r"\\(?:text|textbf|textit|mathrm|mathbf|mbox)\s*\{([^{}\\]*)\}", r" \1 ", plain)
    words = " ".join(words.replace(",", " ").replace(".", " ").split())
    if not PROSE.fullmatch(words):
        return None
    pieces = [piece.strip("'-") for piece in re.split(r"[ -]+", words)]
    if any(piece in FUNCTIONS or piece in GREEK or piece == "pi" for piece in pieces):
        return None
    is_prose = any(piece.casefold() in SHORT_PROSE or len(piece) > 3 for piece in pieces) or r"\text" in plain
    return words if is_prose and (len(words) > 1) else None


def evaluate(tree: Node) -> Value:
    """The value of a whole answer."""
    if _has(tree, ("plus_minus", "minus_plus")):
        both = [_evaluate(_with_sign(tree, is_upper)) for is_upper in (True, False)]
        names = [value.name for value in both if isinstance(value, Named)]
        inner = tuple(value.value if isinstance(value, Named) else value for value in both)
        flat = tuple(
            item for v in inner for item in (v.items if isinstance(v, Collection) and not v.brackets else (v,))
        )
        together = Collection(brackets="", items=flat)
        return Named(name=names[0], value=together) if names else together
    return _evaluate(tree)


def _has(tree: Node, kinds: tuple[str, ...]) -> bool:
    return tree.kind in kinds or any(_has(arg, kinds) for arg in tree.args)


def _with_sign(tree: Node, is_upper: bool) -> Node:
    kind = tree.kind
    if kind in ("plus_minus", "minus_plus"):
        kind = "plus" if (kind == "plus_minus") == is_upper else "minus"
    return Node(
        kind=kind, args=tuple(_with_sign(arg, is_upper) for arg in tree.args), text=tree.text, words=tree.words,
        value=tree.value, num_digits=tree.num_digits, num_decimals=tree.num_decimals, is_thousands=tree.is_thousands,
        unit=tree.unit,
    )  # fmt: skip


def _evaluate(tree: Node) -> Value:
    if tree.kind in VALUES:
        return VALUES[tree.kind](tree)
    return _scalar(tree)


def _scalar(tree: Node) -> Value:
    """An expression with its unit; the digits of a decimal are kept only where nothing is done to it."""
    unit, inner = PLAIN, tree
    sign = 1
    if inner.kind == "minus" and _is_nothing(inner.args[0]) and inner.args[1].kind in ("quantity", "number"):
        sign, inner = -1, inner.args[1]
    if inner.kind == "quantity":
        unit, inner = inner.unit, inner.args[0]
        if inner.kind == "quantity":
            unit, inner = units.product(inner.unit, unit), inner.args[0]
    elif inner.kind in ("plus", "minus") and inner.args[1].kind == "quantity" and not inner.args[1].unit.is_pure:
        unit = inner.args[1].unit
        inner = Node(kind=inner.kind, args=(inner.args[0], inner.args[1].args[0]))
    if inner.kind == "symbol" and inner.text == "mathbb R":
        return regions.EVERYTHING
    if inner.kind == "text":
        return Text(words=inner.text)
    return Scalar(
        expr=algebra.multiply(algebra.constant(sign), _expr(inner)),
        unit=unit,
        num_digits=inner.num_digits if inner.kind == "number" else None,
        num_decimals=inner.num_decimals,
    )


def _is_nothing(node: Node) -> bool:
    return node.kind == "number" and not node.value and not node.text


def _expr(tree: Node) -> Expr:
    if tree.kind not in EXPRESSIONS:
        raise Unreadable(f"a {tree.kind} inside an expression")
    return EXPRESSIONS[tree.kind](tree)


def _two(operation: Callable[[Expr, Expr], Expr]) -> Callable[[Node], Expr]:
    return lambda tree: operation(_expr(tree.args[0]), _expr(tree.args[1]))


def _symbol(tree: Node) -> Expr:
    known = {"pi": algebra.PI, "e": algebra.E, "i": algebra.IMAGINARY}
    if tree.text.startswith("mathbb"):
        raise Unreadable("a set inside an expression")
    return known.get(tree.text) or algebra.symbol(tree.text)


def _quantity(tree: Node) -> Expr:
    if not tree.unit.is_pure:
        raise Unreadable("a unit inside an expression")
    return algebra.multiply(_expr(tree.args[0]), factor_of(tree.unit))


def factor_of(unit: Unit) -> Expr:
    """What a unit multiplies by."""
    return algebra.multiply(
        algebra.constant(unit.factor), algebra.power(algebra.PI, algebra.constant(unit.pi_exponent))
    )


def _based(tree: Node) -> Expr:
    base = algebra.as_int(_expr(tree.args[0]))
    if (
        base is None
        or not 2 <= base <= LARGEST_BASE
        or not tree.text.isdigit()
        or any(int(d) >= base for d in tree.text)
    ):
        raise Unreadable("a number whose index is no base of it")
    if len(tree.text) > 200:
        raise TooBig("a number of more than 200 digits in another base")
    return algebra.constant(int(tree.text, base))


def _brackets(tree: Node) -> Value:
    items = tuple(_evaluate(arg) for arg in tree.args)
    return Collection(brackets=tree.text, items=items)


def _list(tree: Node) -> Value:
    items = [_evaluate(arg) for arg in tree.args]
    if all(isinstance(item, Region) or (isinstance(item, Named) and isinstance(item.value, Region)) for item in items):
        return _joined_regions(items, tree.words)
    if all(isinstance(item, Text) for item in items):
        return Text(words=" ".join(item.words for item in items if isinstance(item, Text)))
    first = items[0]
    names = {item.name for item in items if isinstance(item, Named)}
    if isinstance(first, Named) and len(names) == 1 and all(isinstance(item, Named | Scalar) for item in items):
        inner = tuple(item.value if isinstance(item, Named) else item for item in items)
        return Named(name=first.name, value=Collection(brackets="", items=inner))
    return Collection(brackets="", items=tuple(items))


def _joined_regions(items: list[Value], words: tuple[str, ...]) -> Value:
    names = {item.name for item in items if isinstance(item, Named)}
    if len(names) > 1:
        return Collection(brackets="", items=tuple(items))
    total: Region | None = None
    for item, word in zip(items, ("or", *words), strict=True):
        region = regions.of(item.value if isinstance(item, Named) else item)
        if total is None:
            total = region
        else:
            total = regions.intersection(total, region) if word == "and" else regions.union(total, region)
    assert total is not None
    return Named(name=names.pop(), value=total) if names else total


def _sets(tree: Node) -> Value:
    left, right = (_evaluate(arg) for arg in tree.args)
    are_sets = all(isinstance(side, Collection) and side.kind == "set" for side in (left, right))
    if tree.kind == "union" and are_sets:
        items = [item for side in (left, right) if isinstance(side, Collection) for item in side.items]
        return Collection(brackets="\\{\\}", items=tuple(items))
    operation = {"union": regions.union, "intersection": regions.intersection, "without": regions.without}[tree.kind]
    return operation(regions.of(left), regions.of(right))


def _matrix(tree: Node) -> Value:
    rows = tuple(tuple(_evaluate(cell) for cell in row.args) for row in tree.args)
    if len({len(row) for row in rows}) != 1 or len(rows) * len(rows[0]) > MOST_ITEMS:
        raise Unreadable("a matrix with rows of several lengths, or a large one")
    return Matrix(rows=rows)


def _ratio(tree: Node) -> Value:
    """A ratio; with words behind it a time of day (`12:30 pm`), compared as it is written."""
    if tree.args[-1].kind == "quantity" and not tree.args[-1].unit.is_pure:
        return Text(words=tree.text)
    return Ratio(parts=tuple(_expr(arg) for arg in tree.args), written=tree.text)


def _relation(tree: Node) -> Value:
    signs = set(tree.words)
    if signs <= {"=", "≈"}:
        return _equation(tree)
    if signs == {"∈"} and len(tree.args) == 2:
        return Named(name=_name(tree.args[0]) or "?", value=_evaluate(tree.args[1]))
    if signs == {"≠"} and len(tree.args) > 2:
        raise Unreadable("a chain of inequations")
    if not (signs <= {"<", "≤"} or signs <= {">", "≥"} or signs == {"≠"}):
        raise Unreadable("a chain of relations that point different ways")
    return _inequality([_expr(arg) for arg in tree.args], tree.words)


def _equation(tree: Node) -> Value:
    names = [_name(arg) for arg in tree.args]
    values = [None if names[k] else _evaluate(arg) for k, arg in enumerate(tree.args)]
    known = [value for value in values if value is not None]
    if len(known) == len(values) - 1 and (name := next(name for name in names if name)) and not _is_in(name, known):
        return Named(name=name, value=_agreed(known))
    if len(known) == len(values) and not any(isinstance(v, Scalar) and algebra.symbols(v.expr) for v in known):
        return _agreed(known)
    if len(tree.args) != 2:
        raise Unreadable("a chain of equations between several unknowns")
    return Equation(difference=algebra.subtract(_expr(tree.args[0]), _expr(tree.args[1])))


def _is_in(name: str, values: list[Value]) -> bool:
    return any(isinstance(value, Scalar) and name in algebra.symbols(value.expr) for value in values)


def _agreed(values: list[Value]) -> Value:
    """The last of sides that are all equal; a chain with another side contradicts itself."""
    exprs = [value.expr for value in values if isinstance(value, Scalar)]
    if len(values) > 1 and len(exprs) != len(values):
        raise Unreadable("a chain of equations between things that are no numbers")
    if any(not is_same_expr(exprs[0], other) for other in exprs[1:]):
        raise Unreadable("an equation whose sides differ")
    return values[-1]


def _name(tree: Node) -> str:
    """What an answer may be called: `x`, `f(x)`, `(x, y)`; empty where it is a value."""
    if tree.kind == "symbol" and tree.text not in ("pi", "e", "i"):
        return tree.text
    if tree.kind == "call" and tree.text.startswith("call ") and all(_name(arg) for arg in tree.args):
        return f"{tree.text[5:]}({','.join(_name(arg) for arg in tree.args)})"
    if tree.kind == "brackets" and all(_name(arg) for arg in tree.args) and tree.text == "()":
        return f"({','.join(_name(arg) for arg in tree.args)})"
    if tree.kind == "text":
        return tree.text.casefold()
    return ""


def _inequality(sides: list[Expr], signs: tuple[str, ...]) -> Value:
    total: Value | None = None
    for left, right, sign in zip(sides, sides[1:], signs, strict=False):
        one = _one_inequality(left, right, sign)
        if total is None:
            total = one
        elif isinstance(total, Named) and isinstance(one, Named) and total.name == one.name:
            total = Named(name=one.name, value=regions.intersection(regions.of(total.value), regions.of(one.value)))
        else:
            raise Unreadable("a chain of inequalities that is not about one variable")
    assert total is not None
    return total


def _one_inequality(left: Expr, right: Expr, sign: str) -> Value:
    for bound, other, way in ((right, left, sign), (left, right, FLIPPED[sign])):
        if regions.is_infinite(bound):
            (name, *rest) = [*algebra.symbols(other), "?"]
            if len(rest) == 1 and is_same_expr(other, algebra.symbol(name)):
                return Named(name=name, value=regions.of_comparison(way, bound))
    difference = algebra.subtract(left, right)
    if (line := regions.linear(difference)) is not None:
        name, slope, root = line
        return Named(name=name, value=regions.of_comparison(sign if slope > 0 else FLIPPED[sign], root))
    if sign == "≠" or not algebra.symbols(difference):
        raise Unreadable("a relation that is not about a variable")
    larger = difference if sign in (">", "≥") else algebra.negate(difference)
    return Inequality(difference=larger, is_strict=sign in ("<", ">"))


VALUES: dict[str, Callable[[Node], Value]] = {
    "brackets": _brackets,
    "list": _list,
    "relation": _relation,
    "ratio": _ratio,
    "union": _sets,
    "intersection": _sets,
    "without": _sets,
    "matrix": _matrix,
    "empty": lambda tree: regions.NOTHING,
}
EXPRESSIONS: dict[str, Callable[[Node], Expr]] = {
    "number": lambda tree: algebra.constant(tree.value),
    "symbol": _symbol,
    "infinity": lambda tree: algebra.INFINITY,
    "plus": _two(algebra.add),
    "minus": _two(algebra.subtract),
    "times": _two(algebra.multiply),
    "over": _two(algebra.divide),
    "power": _two(algebra.power),
    "call": lambda tree: functions.call(tree.text, [_expr(arg) for arg in tree.args]),
    "factorial": lambda tree: functions.factorial_of(_expr(tree.args[0])),
    "quantity": _quantity,
    "based": _based,
}
