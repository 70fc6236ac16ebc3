"""Whole numbers in English words: `five`, `twenty-one`, `three hundred and five`, `minus two thousand`.

Decisions: a text is a number or it is not; nothing else may be said. What is not how a number is said
(`twenty eleven`, `hundred five hundred`) is none.
Not covered: ordinals, fractions, decimals (`one point five`), `a hundred`, `two dozen`, numbers from a quadrillion on.
"""

import re
from typing import Final

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

_DIGITS = "|".join(word for word, value in ONES.items() if 0 < value < 10)
_BELOW_TWENTY = "|".join(sorted(ONES.keys() - {"zero"}, key=len, reverse=True))
_BELOW_HUNDRED = rf"(?:(?:{'|'.join(TENS)})(?:[ -](?:{_DIGITS}))?|{_BELOW_TWENTY})"
_HUNDREDS = rf"(?P<hundreds>{_DIGITS}) hundred(?:(?: and)? (?P<rest>{_BELOW_HUNDRED}))?"
_GROUP = re.compile(rf"{_HUNDREDS}|(?:and )?(?P<alone>{_BELOW_HUNDRED})")


def read(text: str) -> int | None:
    """The number that a text of number words says; None where it says none, or anything else."""
    said = " ".join(text.casefold().strip(" .!*_`\"'$\n").split())
    if not said or len(said) > LONGEST:
        return None
    if said == "zero":
        return 0
    is_negative = said.startswith(("minus ", "negative "))
    value = _read_groups(said.partition(" ")[2] if is_negative else said)
    return -value if value is not None and is_negative else value


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
