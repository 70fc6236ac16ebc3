"""Whole numbers in English words: `five`, `twenty-one`, `three hundred and five`, `minus two thousand`, `a dozen`.

Decisions: for `read` a text is a number or it is not; nothing else may be said. What is not how a number is said
(`twenty eleven`, `hundred five hundred`) is none. `in_digits` lets one thing be counted behind it (`five dollars`,
`two dozen eggs`). `spans` finds the numbers in any text, less the word `one`, which mostly counts nothing.
Not covered: ordinals, fractions, decimals (`one point five`), `half a dozen`, numbers from a quadrillion on.
"""

import re
from typing import Final

from burnish.rewards import units

ONES: Final = {
    word: value
    for value, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
        " seventeen eighteen nineteen".split()
    )
}
TENS: Final = {
    word: 10 * value
    for value, word in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split(), start=2)
}
GROUPS: Final = {"trillion": 10**12, "billion": 10**9, "million": 10**6, "thousand": 1000, "": 1}
LONGEST: Final = 200
LARGEST_OF_DOZENS: Final = 99

_DIGITS = "|".join(word for word, value in ONES.items() if 0 < value < 10)
_BELOW_TWENTY = "|".join(sorted(ONES.keys() - {"zero"}, key=len, reverse=True))
_BELOW_HUNDRED = rf"(?:(?:{'|'.join(TENS)})(?:[ -](?:{_DIGITS}))?|{_BELOW_TWENTY})"
_HUNDREDS = rf"(?P<hundreds>{_DIGITS}) hundred(?:(?: and)? (?P<rest>{_BELOW_HUNDRED}))?"
_GROUP = re.compile(rf"{_HUNDREDS}|(?:and )?(?P<alone>{_BELOW_HUNDRED})")
_WORD = rf"(?:{'|'.join([*TENS, _BELOW_TWENTY, 'zero', 'hundred', *filter(None, GROUPS), 'dozen'])})"
_NUMBER = re.compile(rf"\b(?:(?:minus|negative|an?) )?{_WORD}(?:(?:[ -]| and |, ){_WORD})*+\b", re.IGNORECASE)
_COUNTED = re.compile(r"(?:(?:square|cubic) )?(?P<thing>[A-Za-z]{2,20})(?: (?:per|an?) [a-z]{2,12}|/[a-z]{1,3})?")
_THINGS = re.compile(r"(?!.*ths|thirds|halves|quarters|times|plus|minus|perhaps|unless)[a-z]+[^s]s")


def read(text: str) -> int | None:
    """The number that a text of number words says; None where it says none, or anything else."""
    said = " ".join(text.casefold().strip(" .!*_`\"'$\n").split())
    if not said or len(said) > LONGEST:
        return None
    if said == "zero":
        return 0
    is_negative = said.startswith(("minus ", "negative "))
    said = re.sub(r"^an? (?=hundred|thousand|million|billion|trillion|dozen)", "one ", said)
    value = _read_dozens(said.partition(" ")[2] if is_negative else said)
    return -value if value is not None and is_negative else value


def in_digits(text: str) -> str:
    """A text that is a number in words, perhaps of something, with the number in digits; else the text."""
    value = read(text)
    if value is not None:
        return str(value)
    said = text.strip(" .!*_`\"'$\n")[:LONGEST]
    number = _NUMBER.match(said)
    value = read(number.group()) if number else None
    counted = _COUNTED.fullmatch(said, number.end() + 1) if number else None
    if value is None or number is None or counted is None or said[number.end()] != " ":
        return text
    is_thing = units.lookup(counted["thing"]) is not None or _THINGS.fullmatch(counted["thing"])
    return f"{value} {counted.group()}" if is_thing else text


def spans(text: str) -> list[tuple[int, int]]:
    """Where numbers in words stand in a text."""
    return [found.span() for found in _NUMBER.finditer(text) if found.group().casefold() != "one"]


def _read_dozens(said: str) -> int | None:
    number, dozen, behind = said.partition(" dozen")
    value = _read_groups(number)
    return value if value is None or not dozen else None if behind or value > LARGEST_OF_DOZENS else 12 * value


def _read_groups(said: str) -> int | None:
    total, rest = 0, said
    for name, factor in GROUPS.items():
        group, found, behind = rest.partition(f" {name}") if name else (rest, rest, "")
        if not found:
            continue
        value = _read_group(group, is_first=total == 0)
        if value is None:
            return None
        total += factor * value
        rest = behind.lstrip(" ,")
    return total


def _read_group(said: str, *, is_first: bool) -> int | None:
    match = _GROUP.fullmatch(said)
    if match is None or (is_first and said.startswith("and ")):
        return None
    words = (match["rest"] or match["alone"] or "").replace("-", " ").split()
    hundreds = 100 * ONES[match["hundreds"]] if match["hundreds"] else 0
    return hundreds + sum(ONES[word] if word in ONES else TENS[word] for word in words)
