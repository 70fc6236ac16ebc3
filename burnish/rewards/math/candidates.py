"""What in a text could be an answer beside the one that was read: numbers, formulas, letters, yes and no.

A stretch of neighbouring words that are mathematics is one candidate, read as `reading` reads an answer, with a unit
that follows it. It is the answer again if its value is; an equation with an operation in it whose sides agree was
worked out.
Decisions: what cannot be read is another answer; so is what could not be told apart, and what stands behind the first
`MOST_READ`. A comparison (`x > 0`) is no candidate beside a number, and a lone variable none beside an expression.
`one` is no number here, `a` and `I` no symbols.
"""

import re
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from functools import cached_property

from burnish.rewards import number_words, units
from burnish.rewards.commitment import Candidate, Find
from burnish.rewards.commitment_words import ARTICLE
from burnish.rewards.math import numeric, reading
from burnish.rewards.math.clean import cleaned
from burnish.rewards.math.compare import is_same
from burnish.rewards.math.limits import MOST_CHARACTERS, Undecided, Unreadable, bounded
from burnish.rewards.math.values import Named, Scalar, Value

MOST_READ = 60
NUM_STEPS = 5_000
LONGEST = 400

PIECE = re.compile(
    r"\$\$?(?![\s$])[^$\n]{1,400}(?<!\s)\$\$?(?![0-9])|\\\([^\n]{1,400}?\\\)|\\\[[^\n]{1,400}?\\\]|[^\s]+"
)
PROSE = re.compile(
    r"[^\w\\]*+(?:[A-Za-z][A-Za-z'\u2019]++(?:[-/][A-Za-z'\u2019]++)*+|[aAI])?[^\w\\]*+|[0-9]++(?:st|nd|rd|th)\W*"
)
OPERATION = re.compile(r"[-+*/=<>^|\u2248\u00b1\u00d7\u00f7\u2264\u2265\u2260\u22c5\u00b7]+")
COMPARES = re.compile(r"[<>\u2264\u2265\u2260]|\\(?:le|ge|ne|lt|gt)q?\b")
HAS_OPERATOR = re.compile(
    r"[0-9A-Za-z)}!%\u00b0]\s?(?:[-+*/^\u00d7\u00f7\u22c5\u00b7]|\\(?:times|cdot|div)\b)|\\[dt]?frac|[0-9][A-Za-z(\\]"
)
RELATES = re.compile(r"^(?:[=\u2248~]|\\approx\b)\s?")
STYLE = re.compile(r"\\(?:text\w*|mathrm|q?quad)\b|\\[^A-Za-z]")
SAYS = re.compile(r"[0-9]|\\[A-Za-z]")
NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
STYLED = re.compile(r"[$\\({\[]*\s*(?:(?:text|mathrm|textbf)\s*\{)?\(?([A-Za-z]{1,5})\)?[})\]$\\]*")
LETTER = re.compile(r"\\?[A-Za-z]|\\[a-z]{1,8}")
YES_OR_NO = re.compile(r"\b(?:yes|no|true|false)\b(?![,]? (?:[a-z]))", re.IGNORECASE)
CAPITAL = re.compile(rf"(?<![A-Za-z0-9'])(?!{ARTICLE})[A-HJ-Z](?![A-Za-z0-9'])")
EDGES = ".,;:!?\"'`*_ "
BRACKETS = {"(": ")", "[": "]", "{": "}"}


def finder(answer: str) -> Find:
    """What finds the candidates beside an answer."""
    said = _without_styles(answer)
    kind = CAPITAL if CAPITAL.fullmatch(said) else YES_OR_NO if YES_OR_NO.fullmatch(said) else None
    if kind is None:
        return _Mathematics(answer).find
    return lambda text: [
        Candidate(one.start(), one.end(), one.group().casefold() == said.casefold()) for one in kind.finditer(text)
    ]


def _without_styles(answer: str) -> str:
    styled = STYLED.fullmatch(answer.strip(EDGES))
    return styled[1] if styled else ""


class _Mathematics:
    """The candidates beside an answer that is mathematics; a limited number of them is read."""

    def __init__(self, answer: str) -> None:
        self.answer = answer[:MOST_CHARACTERS]
        self.left = MOST_READ

    @cached_property
    def plain(self) -> str:
        return cleaned(self.answer)

    @cached_property
    def values(self) -> list[Value]:
        return _values(self.answer)

    def find(self, text: str) -> list[Candidate]:
        found = [self._judged(text, start, end) for start, end in _runs(text)]
        found += [self._judged(text, start, end) for start, end in number_words.spans(text)]
        return sorted(one for one in found if one is not None)

    def _judged(self, text: str, start: int, end: int) -> Candidate | None:
        run = text[start:end]
        run = RELATES.sub("", run.replace("\\$", "") if "=" in run else run)
        bare = cleaned(run[:LONGEST])
        if not bare or self._is_nothing(bare):
            return None
        if bare == self.plain:
            return Candidate(start, end, True)
        self.left -= 1
        values = _values(run) if self.left > 0 and len(run) <= LONGEST else []
        is_worked = "=" in run and HAS_OPERATOR.search(run) is not None and bool(values)
        return Candidate(
            start,
            end,
            self._is_same(values),
            is_worked and not any(isinstance(value, Named) for value in values),
            self.plain in NUMBER.findall(bare),
            self._ends(bare),
        )

    def _ends(self, bare: str) -> bool:
        """Whether the one number of the answer is the last in a text, alone or behind an equals sign."""
        own, numbers = NUMBER.findall(self.plain), NUMBER.findall(bare)
        is_result = len(numbers) == 1 or "=" in bare
        return is_result and len(own) == 1 and bool(numbers) and Fraction(own[0]) == Fraction(numbers[-1])

    def _is_nothing(self, bare: str) -> bool:
        if LETTER.fullmatch(bare) or not (SAYS.search(STYLE.sub(" ", bare)) or HAS_OPERATOR.search(bare)):
            return True
        return COMPARES.search(bare) is not None and all(isinstance(value, Scalar) for value in self.values)

    def _is_same(self, values: list[Value]) -> bool:
        with bounded(NUM_STEPS):
            try:
                return any(is_same(a, b) or _is_rounded(a, b) for a in self.values for b in values)
            except (Unreadable, Undecided):
                return False


def _values(text: str) -> list[Value]:
    said = number_words.in_digits(text)
    with bounded(NUM_STEPS):
        try:
            return reading.read(said)
        except (Unreadable, Undecided):
            return []


def _is_rounded(answer: Value, other: Value) -> bool:
    """Whether a decimal is the answer rounded to as many places as it has."""
    if not (isinstance(answer, Scalar) and isinstance(other, Scalar) and other.num_decimals):
        return False
    exact, decimal = numeric.real_value(answer.expr), numeric.real_value(other.expr)
    return exact is not None and decimal is not None and abs(exact - decimal) * 2 <= Decimal(10) ** -other.num_decimals


def _runs(text: str) -> Iterator[tuple[int, int]]:
    """Where neighbouring words are mathematics."""
    start = end = -1
    for piece in PIECE.finditer(text):
        word = piece.group()
        is_open = start >= 0
        is_unit = is_open and text[end - 1] in "0123456789)}" and _is_unit(word)
        if is_unit or (not PROSE.fullmatch(word)) or (is_open and OPERATION.fullmatch(word)):
            start = start if is_open else piece.start()
            end = piece.end()
            if word[-1] not in ",;:" or text.count("(", start, end) > text.count(")", start, end):
                continue
        if is_open or start >= 0:
            yield _trimmed(text, start, end)
            start = end = -1
    if start >= 0:
        yield _trimmed(text, start, end)


def _is_unit(word: str) -> bool:
    bare = word.strip(EDGES)
    return bare not in ("in", "a", "A") and units.lookup(bare) is not None


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Without marks at its ends, and without a bracket there that has no partner."""
    while start < end <= start + LONGEST:
        inside = text[start:end]
        if inside[-1] in EDGES or _is_alone(inside, inside[-1]):
            end -= 1
        elif inside[0] in EDGES or _is_alone(inside, inside[0]):
            start += 1
        else:
            break
    return start, end


def _is_alone(inside: str, bracket: str) -> bool:
    for opening, closing in BRACKETS.items():
        if bracket in (opening, closing):
            return inside.count(opening) != inside.count(closing)
    return False
