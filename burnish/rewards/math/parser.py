"""A precedence parser of tokens into a tree; nothing is evaluated, and what does not fit is `Unreadable`.

From loose to tight: lists (`,` `;` `and` `or`), relations, ratios, set operations, sums, products (with or without a
sign), units, signs, powers, what is glued behind (`!` `%` degrees, a base), and single things.

Decisions: a number may not follow a number or a variable without a sign (`1 2 3` and `x2` are unreadable), but for
mixed numbers (`3 1/2`). `1/2x` is `(1/2)x`. `f`, `g`, `h` before a bracket are functions, other letters factors.
"""

from fractions import Fraction

from burnish.rewards import units
from burnish.rewards.math.cursor import Cursor
from burnish.rewards.math.limits import MOST_ITEMS, TooBig, Unreadable
from burnish.rewards.math.tokens import END, Token
from burnish.rewards.math.tree import Kind, Node, number
from burnish.rewards.math.written_units import DOLLAR, unit_at

CLOSING = {"(": (")", "]"), "[": ("]", ")"), "\\{": ("\\}",), "{": ("}",), "⟨": ("⟩",), "⌊": ("⌋",), "⌈": ("⌉",)}
RELATIONS = frozenset("= ≈ < > ≤ ≥ ≠ ∈".split())
FUNCTION_LETTERS = frozenset("fgh")
SIGN_KINDS: dict[str, Kind] = {"+": "plus", "-": "minus", "±": "plus_minus", "∓": "minus_plus"}


def parse(tokens: list[Token]) -> Node:
    """Parse all tokens as one answer."""
    parser = _Parser(tokens)
    tree = parser.items()
    if parser.at.now is not END:
        parser.at.fail("the end")
    return tree


class _Parser:
    """The grammar, over a place in the tokens."""

    def __init__(self, tokens: list[Token]) -> None:
        self.at = Cursor(tokens)
        self._num_bars = 0

    def items(self) -> Node:
        """A list, or its only item."""
        found, words = [self._relation()], list[str]()
        while self.at.holds(",", ";", "and", "or"):
            separator = self.at.step().text
            if separator in (",", ";") and self.at.holds("and", "or"):
                separator = self.at.step().text
            found.append(self._relation())
            words.append(separator)
            if len(found) > MOST_ITEMS:
                raise TooBig(f"a list of more than {MOST_ITEMS}")
        return Node(kind="list", args=tuple(found), words=tuple(words)) if words else found[0]

    def _relation(self) -> Node:
        sides, signs = [self._ratio()], list[str]()
        while self.at.now.kind == "sign" and self.at.now.text in RELATIONS:
            signs.append(self.at.step().text)
            sides.append(self._ratio())
        return Node(kind="relation", args=tuple(sides), words=tuple(signs)) if signs else sides[0]

    def _ratio(self) -> Node:
        start = self.at.position
        parts = [self._sets()]
        while self._num_bars == 0 and self.at.take(":"):
            parts.append(self._sets())
        if len(parts) == 1:
            return parts[0]
        written = "".join(token.text for token in self.at.since(start))
        return Node(kind="ratio", args=tuple(parts), text=written)

    def _sets(self) -> Node:
        left = self._sum()
        while self.at.holds("∪", "∩", "∖"):
            sign = self.at.step().text
            kind = "union" if sign == "∪" else "intersection" if sign == "∩" else "without"
            left = Node(kind=kind, args=(left, self._sum()))
        return left

    def _sum(self) -> Node:
        left = self._product()
        while self.at.holds("+", "-", "±", "∓"):
            sign = self.at.step().text
            left = Node(kind=_kind_of_sign(sign), args=(left, self._product()))
        return left

    def _product(self) -> Node:
        left = self._signed()
        while True:
            if self.at.take("*"):
                left = Node(kind="times", args=(left, self._signed()))
            elif self.at.take("/"):
                left = Node(kind="over", args=(left, self._signed()))
            elif self.at.now.kind == "word" or self.at.holds("$"):
                left = Node(kind="quantity", args=(left,), unit=unit_at(self.at, self._argument))
            elif self._starts_factor():
                left = _juxtaposed(left, self._power())
            else:
                return left

    def _starts_factor(self) -> bool:
        token = self.at.now
        if token.kind in ("symbol", "function"):
            return True
        if token.kind == "command":
            return token.text in ("frac", "binom", "begin", "infty")
        if token.kind == "sign" and token.text == "|":
            return self._num_bars == 0
        return token.kind == "sign" and token.text in ("(", "[", "{", "⌊", "⌈", "⟨")

    def _signed(self) -> Node:
        if self.at.holds("+", "-", "±", "∓"):
            sign = self.at.step().text
            return Node(kind=_kind_of_sign(sign), args=(number(0), self.at.nested(self._signed)))
        return self._power()

    def _power(self) -> Node:
        base = self._postfix()
        if self.at.take("^"):
            exponent = self.at.nested(self._exponent)
            base = self._behind(Node(kind="power", args=(base, exponent)))
        return base

    def _exponent(self) -> Node:
        return self._signed() if not self.at.holds("{") else self._power()

    def _postfix(self) -> Node:
        return self._behind(self._primary())

    def _behind(self, node: Node) -> Node:
        while True:
            if self.at.take("!"):
                node = Node(kind="factorial", args=(node,))
            elif self.at.holds("%", "°"):
                unit = units.find("percent" if self.at.step().text == "%" else "degree")
                node = Node(kind="quantity", args=(node,), unit=unit)
            else:
                return node

    def _primary(self) -> Node:
        token = self.at.now
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
            return self.at.nested(self._brackets)
        if token.kind == "sign" and token.text == "|":
            return self.at.nested(self._absolute)
        return self.at.fail("a value")

    def _number(self) -> Node:
        token = self.at.step()
        if self.at.holds("_"):
            self.at.step()
            base = self.at.nested(self._argument)
            return Node(kind="based", args=(base,), text=token.text)
        value = token.value
        is_whole = token.num_digits is None and value.denominator == 1 and "." not in token.text
        if is_whole and self.at.now.kind == "number" and self.at.now.has_space and self.at.ahead(1).text == "/":
            above, below = self.at.now, self.at.ahead(2)
            if below.kind == "number" and 0 < above.value < below.value:
                self.at.position += 3
                return number(value + above.value / below.value)
        if self.at.now.kind == "number":
            self.at.fail("a sign between two numbers")
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
        name = self.at.step().text
        while self.at.holds("'"):
            self.at.step()
            name += "'"
        if self.at.take("_"):
            name = f"{name}_{self._subscript()}"
        if name[0] in FUNCTION_LETTERS and self.at.holds("(") and len(name.rstrip("'")) == 1:
            return Node(kind="call", text=f"call {name}", args=self._call_arguments())
        if self.at.now.kind == "number" and self.at.ahead(1).text != "^" and len(name) == 1:
            self.at.fail("a sign between a variable and a number")
        return Node(kind="symbol", text=name)

    def _subscript(self) -> str:
        if not self.at.take("{"):
            return self.at.step().text
        parts: list[str] = []
        while not self.at.take("}"):
            if self.at.now is END or len(parts) > 10:
                self.at.fail("}")
            parts.append(self.at.step().text)
        return "".join(parts)

    def _call_arguments(self) -> tuple[Node, ...]:
        inside = self.at.nested(self._brackets)
        return inside.args if inside.kind == "brackets" else (inside,)

    def _words(self) -> Node:
        found = [self.at.step().text]
        while self.at.now.kind == "word":
            found.append(self.at.step().text)
        if found[0] in ("€", "£", "₹", "¥") and self.at.now.kind == "number":
            return Node(kind="quantity", args=(self._number(),), unit=units.find(found[0]))
        return Node(kind="text", text=" ".join(found))

    def _function(self) -> Node:
        name = self.at.step().text
        if name == "sqrt":
            return self._root()
        base: tuple[Node, ...] = ()
        exponent: Node | None = None
        if self.at.take("_"):
            base = (self.at.nested(self._argument),)
        if self.at.take("^"):
            exponent = self.at.nested(self._argument)
        if self.at.holds("(", "{", "["):
            args = self._call_arguments()
        else:
            args = (self.at.nested(self._loose_argument),)
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
        if self.at.holds("-", "+"):
            return self._signed()
        left = self._power()
        while self._starts_factor() and self.at.now.kind != "function":
            left = _juxtaposed(left, self._power())
        return left

    def _root(self) -> Node:
        degree: Node = number(2)
        if self.at.take("["):
            degree = self.at.nested(self._sum)
            self.at.expect("]")
        inside = self.at.nested(self._argument)
        return Node(kind="call", text="root", args=(inside, degree))

    def _argument(self) -> Node:
        """A braced or bracketed thing, or the next single one."""
        if self.at.holds("+", "-"):
            return self._signed()
        if self.at.now.kind == "number":
            return self._literal(self.at.step())
        return self._primary()

    def _command(self) -> Node:
        name = self.at.step().text
        if name == "frac":
            return Node(kind="over", args=(self.at.nested(self._argument), self.at.nested(self._argument)))
        if name == "binom":
            return Node(
                kind="call", text="binom", args=(self.at.nested(self._argument), self.at.nested(self._argument))
            )
        if name == "infty":
            return Node(kind="infinity")
        if name in ("emptyset", "varnothing"):
            return Node(kind="empty")
        if name == "$":
            sign = number(-1) if self.at.take("-") else None
            amount = Node(kind="quantity", args=(self._number_or_fail(),), unit=DOLLAR)
            return amount if sign is None else Node(kind="minus", args=(number(0), amount))
        if name == "begin":
            return self.at.nested(self._matrix)
        return self.at.fail("a value")

    def _number_or_fail(self) -> Node:
        if self.at.now.kind != "number":
            self.at.fail("an amount of money")
        return self._number()

    def _matrix(self) -> Node:
        rows: list[Node] = []
        row = [self._relation()]
        while not self.at.take("end"):
            if self.at.take("&"):
                row.append(self._relation())
            else:
                self.at.expect("\\\\")
                rows.append(Node(kind="row", args=tuple(row)))
                if self.at.take("end"):
                    return Node(kind="matrix", args=tuple(rows))
                row = [self._relation()]
            if len(rows) + len(row) > MOST_ITEMS:
                raise TooBig(f"a matrix of more than {MOST_ITEMS} entries a side")
        return Node(kind="matrix", args=(*rows, Node(kind="row", args=tuple(row))))

    def _absolute(self) -> Node:
        self.at.step()
        self._num_bars += 1
        inside = self._sum()
        self._num_bars -= 1
        self.at.expect("|")
        return Node(kind="call", text="abs", args=(inside,))

    def _brackets(self) -> Node:
        opening = self.at.step().text
        bars, self._num_bars = self._num_bars, 1 if opening == "\\{" else 0
        if opening == "\\{" and self.at.take("\\}"):
            return Node(kind="empty")
        inside = self.items()
        if opening == "\\{" and self.at.holds("|", ":"):
            self.at.step()
            inside = self._relation()
            self.at.expect("\\}")
            return inside
        closing = self.at.expect(*CLOSING[opening])
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
