"""Units of measure: a name to its dimensions and its exact factor.

`find("km")` is 1000 metres. Decisions: a word that is no known unit is a kind of its own (`apples`), equal to itself in
singular and plural and to nothing else; `units` says nothing; a percent and a degree of angle are pure numbers.
Not covered: temperatures beyond their names (no offset), prefixes other than those listed, exchange rates.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A factor, a power of pi in it (degrees), and the dimensions with their exponents."""

    factor: Fraction = Fraction(1)
    pi_exponent: int = 0
    dimensions: tuple[tuple[str, int], ...] = ()
    name: str = ""

    @property
    def is_pure(self) -> bool:
        """Whether it is a plain number (percent, degree)."""
        return not self.dimensions


def _table() -> Mapping[str, Unit]:
    table: dict[str, Unit] = {}

    def enter(names: str, factor: Fraction | int | str, dimension: str, exponent: int = 1) -> None:
        for name in names.split():
            table[name] = Unit(factor=Fraction(factor), dimensions=((dimension, exponent),), name=names.split()[0])

    for names, prefix in (
        ("k kilo", 1000),
        ("", 1),
        ("d deci", "1/10"),
        ("c centi", "1/100"),
        ("m milli", "1/1000"),
        ("u micro", "1/1000000"),
        ("n nano", "1/1000000000"),
    ):
        short, _, long = names.partition(" ")
        factor = Fraction(prefix)
        enter(f"{short}m {long}meter {long}metre", factor, "length")
        enter(f"{short}g {long}gram {long}gramme", factor, "mass")
        enter(f"{short}s {long}second {short}sec", factor, "time")
        enter(f"{short}L {short}l {long}liter {long}litre", factor / 1000, "length", 3)
        enter(f"{short}J {long}joule", factor, "energy")
        enter(f"{short}W {long}watt", factor, "power")
        enter(f"{short}N {long}newton", factor, "force")
        enter(f"{short}V {long}volt", factor, "voltage")
        enter(f"{short}A {long}ampere {short}amp", factor, "current")
        enter(f"{short}Hz {long}hertz", factor, "frequency")
        enter(f"{short}Pa {long}pascal", factor, "pressure")
        enter(f"{short}mol {long}mole", factor, "amount")
    enter("in inch", "127/5000", "length")
    enter("ft foot feet", "381/1250", "length")
    enter("yd yard", "1143/1250", "length")
    enter("mi mile", "201168/125", "length")
    enter("lb lbs pound", "45359237/100000", "mass")
    enter("oz ounce", "45359237/1600000", "mass")
    enter("ton tonne", 1_000_000, "mass")
    enter("min minute", 60, "time")
    enter("h hr hour", 3600, "time")
    enter("day", 86_400, "time")
    enter("week wk", 604_800, "time")
    enter("year yr", 1, "years")
    enter("month mo", "1/12", "years")
    enter("USD dollar buck", 1, "dollars")
    enter("cent ¢", "1/100", "dollars")
    enter("EUR euro €", 1, "euros")
    enter("GBP £", 1, "pounds sterling")
    enter("INR ₹ rupee", 1, "rupees")
    enter("JPY ¥ yen", 1, "yen")
    enter("rad radian", 1, "none")
    enter("mph", "201168/125", "speed")
    for name in ("rad", "radian", "unit"):
        table[name] = Unit(name="rad" if name != "unit" else "")
    for name in ("percent", "%"):
        table[name] = Unit(factor=Fraction(1, 100), name="percent")
    for name in ("degree", "deg", "°"):
        table[name] = Unit(factor=Fraction(1, 180), pi_exponent=1, name="degree")
    table["mph"] = Unit(factor=Fraction(201168, 125) / 3600, dimensions=(("length", 1), ("time", -1)), name="mph")
    return table


UNITS = _table()
PLAIN = Unit()


def find(word: str) -> Unit:
    """The unit of a word, or a kind of its own."""
    known = lookup(word)
    if known is not None:
        return known
    return Unit(dimensions=((_singular(word.casefold()), 1),), name=word)


def lookup(word: str) -> Unit | None:
    """A known unit; None if the word is none. Short names are spelt exactly, long ones in any case and number."""
    if word in UNITS:
        return UNITS[word]
    lowered = word.casefold()
    for form in (lowered, _singular(lowered)):
        if len(form) > 2 and form in UNITS:
            return UNITS[form]
    return None


def product(a: Unit, b: Unit, exponent: int = 1) -> Unit:
    """`a * b ** exponent`."""
    dimensions = dict(a.dimensions)
    for name, e in b.dimensions:
        dimensions[name] = dimensions.get(name, 0) + e * exponent
    kept = tuple(sorted((name, e) for name, e in dimensions.items() if e))
    return Unit(
        factor=a.factor * b.factor**exponent,
        pi_exponent=a.pi_exponent + b.pi_exponent * exponent,
        dimensions=kept,
        name=f"{a.name} {b.name}".strip(),
    )


def _singular(word: str) -> str:
    if word in ("feet", "inches"):
        return "foot" if word == "feet" else "inch"
    if re.search(r"(?:ch|sh|x|ss)es$", word):
        return word[:-2]
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 2 else word
