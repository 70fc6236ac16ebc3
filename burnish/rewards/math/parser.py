"""A precedence parser of tokens into a tree; nothing is evaluated, and what does not fit is `Unreadable`.

From loose to tight: lists (`,` `;` `and` `or`), relations, ratios, set operations, sums, products (with or without a
sign), units, signs, powers, what is glued behind (`!` `%` degrees, a base), and single things.

Decisions: a number may not follow a number or a variable without a sign (`1 2 3` and `x2` are unreadable), but for
mixed numbers (`3 1/2`). `1/2x` is `(1/2)x`. `f`, `g`, `h` before a bracket are functions, other letters factors.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import NoReturn

from burnish.rewards import units
from burnish.rewards.math.limits import DEEPEST, MOST_ITEMS, TooBig, Unreadable, spend
from burnish.rewards.math.tokens import END, Token
from burnish.rewards.math.tree import Kind, Node, number
from burnish.rewards.units import Unit

CLOSING = {"(": (")", "]"), "[": ("]", ")"), "\\{": ("\\}",), "{": ("}",), "⟨": ("⟩",), "⌊": ("⌋",), "⌈": ("⌉",)}
RELATIONS = frozenset("= ≈ < > ≤ ≥ ≠ ∈".split())
FUNCTION_LETTERS = frozenset("fgh")
EXPONENT_WORDS = {"square": 2, "sq": 2, "cubic": 3, "squared": 2, "cubed": 3}
MOST_UNIT_WORDS = 4
SIGN_KINDS: dict[str, Kind] = {"+": "plus", "-": "minus", "±": "plus_minus", "∓": "minus_plus"}
DOLLAR = units.find("dollar")


def parse(tokens: list[Token]) -> Node:
    """Parse all tokens as one answer."""
    parser = _Parser(tokens)
    tree = parser.items()
    if parser.now is not END:
        parser.fail("the end")
    return tree


class _Parser:
    """Where a parse stands."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._position = 0
        self._depth = 0
        self._num_bars = 0

    @property
    def now(self) -> Token:
        return self._tokens[self._position] if self._position < len(self._tokens) else END

    def _ahead(self, distance: int) -> Token:
        at = self._position + distance
        return self._tokens[at] if at < len(self._tokens) else END

    def _step(self) -> Token:
        token = self.now
        self._position += 1
        spend(4)
        return token

    def _is(self, *signs: str) -> bool:
        return self.now.kind in ("sign", "command") and self.now.text in signs

    def _take(self, *signs: str) -> bool:
        if not self._is(*signs):
            return False
        self._position += 1
        return True

    def _expect(self, *signs: str) -> str:
        if not self._is(*signs):
            self.fail(" or ".join(signs))
        return self._step().text

    def fail(self, expected: str) -> NoReturn:
        raise Unreadable(f"got {self.now.text[:30]!a}, expected {expected}")

    def _nested(self, what: Callable[[], Node]) -> Node:
        self._depth += 1
        if self._depth > DEEPEST:
            raise TooBig(f"nested deeper than {DEEPEST}")
        node = what()
        self._depth -= 1
        return node

    def items(self) -> Node:
        """A list, or its only item."""
        found, words = [self._relation()], list[str]()
        while self._is(",", ";", "and", "or"):
            separator = self._step().text
            if separator in (",", ";") and self._is("and", "or"):
                separator = self._step().text
            found.append(self._relation())
            words.append(separator)
            if len(found) > MOST_ITEMS:
                raise TooBig(f"a list of more than {MOST_ITEMS}")
        return Node(kind="list", args=tuple(found), words=tuple(words)) if words else found[0]

    def _relation(self) -> Node:
        sides, signs = [self._ratio()], list[str]()
        while self.now.kind == "sign" and self.now.text in RELATIONS:
            signs.append(self._step().text)
            sides.append(self._ratio())
        return Node(kind="relation", args=tuple(sides), words=tuple(signs)) if signs else sides[0]

    def _ratio(self) -> Node:
        start = self._position
        parts = [self._sets()]
        while self._num_bars == 0 and self._take(":"):
            parts.append(self._sets())
        if len(parts) == 1:
            return parts[0]
        written = "".join(token.text for token in self._tokens[start : self._position])
        return Node(kind="ratio", args=tuple(parts), text=written)

    def _sets(self) -> Node:
        left = self._sum()
        while self._is("∪", "∩", "∖"):
            sign = self._step().text
            kind = "union" if sign == "∪" else "intersection" if sign == "∩" else "without"
            left = Node(kind=kind, args=(left, self._sum()))
        return left

    def _sum(self) -> Node:
        left = self._product()
        while self._is("+", "-", "±", "∓"):
            sign = self._step().text
            left = Node(kind=_kind_of_sign(sign), args=(left, self._product()))
        return left

    def _product(self) -> Node:
        left = self._signed()
        while True:
            if self._take("*"):
                left = Node(kind="times", args=(left, self._signed()))
            elif self._take("/"):
                left = Node(kind="over", args=(left, self._signed()))
            elif self.now.kind == "word" or self._is("$"):
                left = Node(kind="quantity", args=(left,), unit=self._unit())
            elif self._starts_factor():
                left = _juxtaposed(left, self._power())
            else:
                return left

    def _starts_factor(self) -> bool:
        token = self.now
        if token.kind in ("symbol", "function"):
            return True
        if token.kind == "command":
            return token.text in ("frac", "binom", "begin", "infty")
        if token.kind == "sign" and token.text == "|":
            return self._num_bars == 0
        return token.kind == "sign" and token.text in ("(", "[", "{", "⌊", "⌈", "⟨")

    def _unit(self) -> Unit:
        if self._take("$"):
            return DOLLAR
        unit, sign, power, num_words = units.PLAIN, 1, 1, 0
        while self.now.kind == "word":
            word = self._step().text
            num_words += 1
            if num_words > MOST_UNIT_WORDS:
                raise Unreadable("words after the number that are no unit")
            if word.lower() in EXPONENT_WORDS:
                power = EXPONENT_WORDS[word.lower()]
                continue
            if word.lower() == "per":
                sign = -1
                continue
            unit = units.product(unit, units.find(word), sign * power * self._unit_exponent())
            power = 1
            if self._is("/") and self._ahead(1).kind in ("word", "symbol"):
                self._step()
                sign = -1
                self._name_unit()
            elif self._is("*") and self._ahead(1).kind == "word":
                self._step()
        return unit

    def _name_unit(self) -> None:
        """After a stroke a single letter is a unit too (km/h)."""
        if self.now.kind == "symbol":
            self._tokens[self._position] = Token(kind="word", text=self.now.text)

    def _unit_exponent(self) -> int:
        if self.now.kind == "word" and self.now.text in ("squared", "cubed"):
            return EXPONENT_WORDS[self._step().text]
        if not self._take("^"):
            return 1
        exponent = self._nested(self._argument)
        is_minus = exponent.kind == "minus" and exponent.args[0].kind == "number"
        value = -exponent.args[1].value if is_minus and len(exponent.args) == 2 else exponent.value
        if value.denominator != 1 or not 0 < abs(value) < 10:
            raise Unreadable("a unit with a strange exponent")
        return int(value)

    def _signed(self) -> Node:
        if self._is("+", "-", "±", "∓"):
            sign = self._step().text
            return Node(kind=_kind_of_sign(sign), args=(number(0), self._nested(self._signed)))
        return self._power()

    def _power(self) -> Node:
        base = self._postfix()
        if self._take("^"):
            exponent = self._nested(self._exponent)
            base = self._behind(Node(kind="power", args=(base, exponent)))
        return base

    def _exponent(self) -> Node:
        return self._signed() if not self._is("{") else self._power()

    def _postfix(self) -> Node:
        return self._behind(self._primary())

    def _behind(self, node: Node) -> Node:
        while True:
            if self._take("!"):
                node = Node(kind="factorial", args=(node,))
            elif self._is("%", "°"):
                unit = units.find("percent" if self._step().text == "%" else "degree")
                node = Node(kind="quantity", args=(node,), unit=unit)
            else:
                return node

    def _primary(self) -> Node:
        token = self.now
        if token.kind == "number":
            return self._number()
        if token.kind == "symbol":
            return self._symbol()
        if token.kind == "word":
            return self._words()
        if token.kind == "function":
            return self._function()
        if token.kind == "command":
            return self._command()
        if token.kind == "sign" and token.text in CLOSING:
            return self._nested(self._brackets)
        if token.kind == "sign" and token.text == "|":
            return self._nested(self._absolute)
        return self.fail("a value")

    def _number(self) -> Node:
        token = self._step()
        if self._is("_"):
            self._step()
            base = self._nested(self._argument)
            return Node(kind="based", args=(base,), text=token.text)
        value = token.value
        is_whole = token.num_digits is None and value.denominator == 1 and "." not in token.text
        if is_whole and self.now.kind == "number" and self.now.has_space and self._ahead(1).text == "/":
            above, below = self.now, self._ahead(2)
            if below.kind == "number" and 0 < above.value < below.value:
                self._position += 3
                return number(value + above.value / below.value)
        if self.now.kind == "number":
            self.fail("a sign between two numbers")
        return self._literal(token)

    def _literal(self, token: Token) -> Node:
        return Node(
            kind="number",
            value=token.value,
            text=token.text,
            num_digits=token.num_digits,
            num_decimals=token.num_decimals,
            is_thousands=token.is_thousands,
        )

    def _symbol(self) -> Node:
        name = self._step().text
        while self._is("'"):
            self._step()
            name += "'"
        if self._take("_"):
            name = f"{name}_{self._subscript()}"
        if name[0] in FUNCTION_LETTERS and self._is("(") and len(name.rstrip("'")) == 1:
            return Node(kind="call", text=f"call {name}", args=self._call_arguments())
        if self.now.kind == "number" and self._ahead(1).text != "^" and len(name) == 1:
            self.fail("a sign between a variable and a number")
        return Node(kind="symbol", text=name)

    def _subscript(self) -> str:
        if not self._take("{"):
            return self._step().text
        parts: list[str] = []
        while not self._take("}"):
            if self.now is END or len(parts) > 10:
                self.fail("}")
            parts.append(self._step().text)
        return "".join(parts)

    def _call_arguments(self) -> tuple[Node, ...]:
        inside = self._nested(self._brackets)
        return inside.args if inside.kind == "brackets" else (inside,)

    def _words(self) -> Node:
        found = [self._step().text]
        while self.now.kind == "word":
            found.append(self._step().text)
        if found[0] in ("€", "£", "₹", "¥") and self.now.kind == "number":
            return Node(kind="quantity", args=(self._number(),), unit=units.find(found[0]))
        return Node(kind="text", text=" ".join(found))

    def _function(self) -> Node:
        name = self._step().text
        if name == "sqrt":
            return self._root()
        base: tuple[Node, ...] = ()
        exponent: Node | None = None
        if self._take("_"):
            base = (self._nested(self._argument),)
        if self._take("^"):
            exponent = self._nested(self._argument)
        if self._is("(", "{", "["):
            args = self._call_arguments()
        else:
            args = (self._nested(self._loose_argument),)
        if exponent is not None and exponent.kind == "minus" and name in ("sin", "cos", "tan"):
            name, exponent = f"arc{name}", None
        call = Node(kind="call", text=name, args=(*args, *base))
        if base and name not in ("log",):
            raise Unreadable(f"{name} with an index")
        if base:
            call = Node(kind="call", text="log_base", args=(*args, *base))
        return call if exponent is None else Node(kind="power", args=(call, exponent))

    def _loose_argument(self) -> Node:
        """What follows a function without brackets: a product up to the next sign or function."""
        if self._is("-", "+"):
            return self._signed()
        left = self._power()
        while self._starts_factor() and self.now.kind != "function":
            left = _juxtaposed(left, self._power())
        return left

    def _root(self) -> Node:
        degree: Node = number(2)
        if self._take("["):
            degree = self._nested(self._sum)
            self._expect("]")
        inside = self._nested(self._argument)
        return Node(kind="call", text="root", args=(inside, degree))

    def _argument(self) -> Node:
        """A braced or bracketed thing, or the next single one."""
        if self._is("+", "-"):
            return self._signed()
        if self.now.kind == "number":
            return self._literal(self._step())
        return self._primary()

    def _command(self) -> Node:
        name = self._step().text
        if name == "frac":
            return Node(kind="over", args=(self._nested(self._argument), self._nested(self._argument)))
        if name == "binom":
            return Node(kind="call", text="binom", args=(self._nested(self._argument), self._nested(self._argument)))
        if name == "infty":
            return Node(kind="infinity")
        if name in ("emptyset", "varnothing"):
            return Node(kind="empty")
        if name == "$":
            sign = number(-1) if self._take("-") else None
            amount = Node(kind="quantity", args=(self._number_or_fail(),), unit=DOLLAR)
            return amount if sign is None else Node(kind="minus", args=(number(0), amount))
        if name == "begin":
            return self._nested(self._matrix)
        return self.fail("a value")

    def _number_or_fail(self) -> Node:
        if self.now.kind != "number":
            self.fail("an amount of money")
        return self._number()

    def _matrix(self) -> Node:
        rows: list[Node] = []
        row = [self._relation()]
        while not self._take("end"):
            if self._take("&"):
                row.append(self._relation())
            else:
                self._expect("\\\\")
                rows.append(Node(kind="row", args=tuple(row)))
                if self._take("end"):
                    return Node(kind="matrix", args=tuple(rows))
                row = [self._relation()]
            if len(rows) + len(row) > MOST_ITEMS:
                raise TooBig(f"a matrix of more than {MOST_ITEMS} entries a side")
        return Node(kind="matrix", args=(*rows, Node(kind="row", args=tuple(row))))

    def _absolute(self) -> Node:
        self._step()
        self._num_bars += 1
        inside = self._sum()
        self._num_bars -= 1
        self._expect("|")
        return Node(kind="call", text="abs", args=(inside,))

    def _brackets(self) -> Node:
        opening = self._step().text
        bars, self._num_bars = self._num_bars, 1 if opening == "\\{" else 0
        if opening == "\\{" and self._take("\\}"):
            return Node(kind="empty")
        inside = self.items()
        if opening == "\\{" and self._is("|", ":"):
            self._step()
            inside = self._relation()
            self._expect("\\}")
            return inside
        closing = self._expect(*CLOSING[opening])
        self._num_bars = bars
        if opening in "⌊⌈":
            return Node(kind="call", text="floor" if opening == "⌊" else "ceil", args=(inside,))
        if inside.kind == "matrix" or opening == "{" or (inside.kind != "list" and opening not in ("\\{", "⟨")):
            return inside
        items = inside.args if inside.kind == "list" else (inside,)
        if "or" in inside.words:
            raise Unreadable("alternatives inside brackets")
        return Node(kind="brackets", text=opening + closing, args=items)


def _kind_of_sign(sign: str) -> Kind:
    return SIGN_KINDS[sign]


def _juxtaposed(left: Node, right: Node) -> Node:
    """A product without a sign, or a mixed number."""
    if left.kind == "number" and left.num_digits is None and left.value.denominator == 1 and _is_small_fraction(right):
        return number(left.value + Fraction(right.args[0].value) / right.args[1].value)
    return Node(kind="times", args=(left, right))


def _is_small_fraction(node: Node) -> bool:
    if node.kind != "over" or any(arg.kind != "number" or arg.num_digits is not None for arg in node.args):
        return False
    return 0 < node.args[0].value < node.args[1].value
