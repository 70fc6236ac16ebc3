"""The tree that `parser` builds."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from burnish.rewards.units import PLAIN, Unit

Kind = Literal[
    "number", "symbol", "infinity", "empty", "text", "plus", "minus", "plus_minus", "minus_plus", "times", "over",
    "power", "call", "factorial", "quantity", "based", "brackets", "list", "relation", "ratio", "union", "intersection",
    "without", "matrix", "row",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node. `text` is a name, an operator or a pair of brackets; the rest is of numbers and quantities."""

    kind: Kind
    args: tuple["Node", ...] = ()
    text: str = ""
    words: tuple[str, ...] = ()
    value: Fraction = Fraction(0)
    num_digits: int | None = None
    num_decimals: int = 0
    is_thousands: bool = False
    unit: Unit = PLAIN


def number(value: Fraction | int) -> Node:
    """An exact number."""
    return Node(kind="number", value=Fraction(value))
