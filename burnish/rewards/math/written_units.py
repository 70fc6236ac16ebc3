"""Units behind a quantity, as they are written: `km/h`, `square feet`, `m^2 per second`, `$`."""

from collections.abc import Callable

from burnish.rewards import units
from burnish.rewards.math.cursor import Cursor
from burnish.rewards.math.limits import Unreadable
from burnish.rewards.math.tokens import Token
from burnish.rewards.math.tree import Node
from burnish.rewards.units import Unit

EXPONENT_WORDS = {"square": 2, "sq": 2, "cubic": 3, "squared": 2, "cubed": 3}
MOST_UNIT_WORDS = 4
DOLLAR = units.find("dollar")


def unit_at(at: Cursor, argument: Callable[[], Node]) -> Unit:
    """Read the unit that stands here; `argument` parses what is behind a power's sign."""
    if at.take("$"):
        return DOLLAR
    unit, sign, power, num_words = units.PLAIN, 1, 1, 0
    while at.now.kind == "word":
        word = at.step().text
        num_words += 1
        if num_words > MOST_UNIT_WORDS:
            raise Unreadable("words after the number that are no unit")
        if word.lower() in EXPONENT_WORDS:
            power = EXPONENT_WORDS[word.lower()]
            continue
        if word.lower() == "per":
            sign = -1
            continue
        unit = units.product(unit, units.find(word), sign * power * _exponent(at, argument))
        power = 1
        if at.holds("/") and at.ahead(1).kind in ("word", "symbol"):
            at.step()
            sign = -1
            _name_unit(at)
        elif at.holds("*") and at.ahead(1).kind == "word":
            at.step()
    return unit


def _name_unit(at: Cursor) -> None:
    """After a stroke a single letter is a unit too (km/h)."""
    if at.now.kind == "symbol":
        at.read_as(Token(kind="word", text=at.now.text))


def _exponent(at: Cursor, argument: Callable[[], Node]) -> int:
    if at.now.kind == "word" and at.now.text in ("squared", "cubed"):
        return EXPONENT_WORDS[at.step().text]
    if not at.take("^"):
        return 1
    exponent = at.nested(argument)
    is_minus = exponent.kind == "minus" and exponent.args[0].kind == "number"
    value = -exponent.args[1].value if is_minus and len(exponent.args) == 2 else exponent.value
    if value.denominator != 1 or not 0 < abs(value) < 10:
        raise Unreadable("a unit with a strange exponent")
    return int(value)
