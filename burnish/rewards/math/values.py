"""What an answer is once it is read: typed values, each compared only with its like (`compare`)."""

from dataclasses import dataclass
from typing import Literal

from burnish.rewards.math.algebra import Expr
from burnish.rewards.units import PLAIN, Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """An expression, its unit, and how many digits were written if it is one decimal."""

    expr: Expr
    unit: Unit = PLAIN
    num_digits: int | None = None
    num_decimals: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """Items in brackets, or a bare list (`brackets` empty)."""

    brackets: str
    items: tuple["Value", ...]

    @property
    def kind(self) -> Literal["list", "set", "tuple", "span"]:
        """What the brackets say; a span is an interval with a closed end, or a list in square brackets."""
        if not self.brackets:
            return "list"
        if self.brackets == "\\{\\}":
            return "set"
        return "tuple" if self.brackets in ("()", "⟨⟩") else "span"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """An interval; an end of None is infinite."""

    low: Expr | None
    high: Expr | None
    has_low: bool = False
    has_high: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A set of reals: disjoint spans in order."""

    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """`x = ...` or `x in ...`."""

    name: str
    value: "Value"


@dataclass(frozen=True, slots=True, kw_only=True)
class Equation:
    """`difference = 0`."""

    difference: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Inequality:
    """`difference > 0`, or `>= 0`."""

    difference: Expr
    is_strict: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """`a : b` and so on, and how it was written."""

    parts: tuple[Expr, ...]
    written: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """Rows of entries."""

    rows: tuple[tuple["Value", ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Words."""

    words: str


Value = Scalar | Collection | Region | Named | Equation | Inequality | Ratio | Matrix | Text


def exprs_of(value: Value) -> list[Expr]:
    """All expressions inside a value."""
    if isinstance(value, Scalar):
        return [value.expr]
    if isinstance(value, Named):
        return exprs_of(value.value)
    if isinstance(value, Collection):
        return [expr for item in value.items for expr in exprs_of(item)]
    if isinstance(value, Matrix):
        return [expr for row in value.rows for cell in row for expr in exprs_of(cell)]
    if isinstance(value, Region):
        return [end for span in value.spans for end in (span.low, span.high) if end is not None]
    if isinstance(value, Ratio):
        return list(value.parts)
    return [value.difference] if isinstance(value, Equation | Inequality) else []
