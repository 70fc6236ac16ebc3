r"""The final number of a free-text reply.

Where it stands is `regions`' matter. In a mark (`####`, `\boxed{}`) all numbers must have one value; in a
cue's sentence it is the number right after the cue, else the last one; without a cue it is the last
number of the last sentence that has one.

Decisions: what is not one number is no answer: ranges (3-5), clock times (2:14), dates, ratios, powers,
lists, `7 or 8` (also before an equals sign), `18 dollars and 50 cents`, `a = b` with two different numbers,
`between 3 and 3`, another number alone on a later line. Number words (`eighteen`) count where there is no digit and
nothing else is said. A decimal equals a non-terminating truth from six correct decimals on
(rounded or cut off). `18%` is 18 to a truth of 18 and 0.18 to a truth of 0.18: a sign may be left out, not
exchanged for another value.
Not covered: arithmetic that is not carried out (`3 + 15` without its sum).
"""

import re
from fractions import Fraction
from itertools import pairwise

from burnish.rewards import number_words
from burnish.rewards.numbers import Number, numbers, plain, single
from burnish.rewards.regions import Region, answer_region

NUM_DECIMALS_OF_A_FRACTION = 6

ALTERNATIVES = re.compile(r"\b(?:or|either|maybe|perhaps|possibly|alternatively)\b", re.IGNORECASE)
JOINED = re.compile(
    r"[^\w=]{0,9}(?:(?!(?:for|at|in|per|on|with|from|is|was|are|makes|gives|if|because|since)\b)[A-Za-z]{1,20}\b)?"
    r"[^\w=]{0,9}(?:and|to|through|until|of|out of|by)?[^\w=]{0,9}",
    re.IGNORECASE,
)
LEADS_TO_NUMBER = re.compile(
    r"(?:[^\w.]|\b(?:is|are|was|will|be|of|to|equals|comes|amounts|about|only|just|therefore|thus|the|a|it|there|cost"
    r"|price|number|amount|value|sum)\b){0,24}"
)

RANGE = re.compile(r"\b(?:between|from)\W{0,9}$", re.IGNORECASE)
LEADS_TO_WORDS = re.compile(r"[\s:=*_]*(?:(?:is|are|was|be|equals)\b[\s:*_]*)?", re.IGNORECASE)


def final_number(reply: str) -> Number | None:
    """Read the number that a reply gives as its answer; None where there is not exactly one."""
    region = answer_region(reply)
    if not any(map(str.isnumeric, reply)):
        return _of_words(region.text)
    if region.kind == "mark":
        return _of_mark(plain(region.text))
    return _of_sentence(region)


def _of_words(text: str) -> Number | None:
    lead = LEADS_TO_WORDS.match(text)
    value = number_words.read(text[lead.end() :] if lead else text)
    return None if value is None else single(str(value))


def is_same_number(truth: Number, answer: Number) -> bool:
    """Compare two read numbers by the policy above."""
    assert truth.value is not None and answer.value is not None
    values = {answer.value}
    if answer.is_percent != truth.is_percent:
        values |= {answer.value / 100} if answer.is_percent else {answer.value * 100}
    return truth.value in values or any(_is_cut_off(truth.value, value, answer.num_decimals) for value in values)


def _of_mark(text: str) -> Number | None:
    sides = text.split("=")
    found = next((there for side in reversed(sides) if (there := numbers(side))), [])
    values = {number.value for number in found}
    return None if len(values) != 1 or _contradicts(sides, found[-1]) else _with_value(found[-1])


def _of_sentence(region: Region) -> Number | None:
    text, before = plain(region.text), plain(region.before)
    found = numbers(text)
    if not found:
        text, found = before, numbers(before)
    if not found:
        return None
    is_led_to = region.kind == "cue" and text is not before
    position = 0 if is_led_to and LEADS_TO_NUMBER.fullmatch(text[: found[0].start]) else len(found) - 1
    neighbours = [
        pair for pair in ((position - 1, position), (position, position + 1)) if 0 <= pair[0] < len(found) - 1
    ]
    if any(_are_joined(text, found[left], found[right]) for left, right in neighbours) or _offers_two(before):
        return None
    sides = plain(region.sentence).split("=") if region.sentence_has_equation else []
    sides += [plain(sentence) for sentence in region.later]
    return None if _contradicts(sides, found[position]) else _with_value(found[position])


def _with_value(number: Number) -> Number | None:
    return number if number.value is not None else None


def _are_joined(text: str, left: Number, right: Number) -> bool:
    """Whether two numbers are one expression or two offers, and not two facts."""
    between = text[left.end : right.start]
    if left.value == right.value and left.value is not None:
        return bool(RANGE.search(text[: left.start]) and JOINED.fullmatch(between))
    return bool(JOINED.fullmatch(between) or ALTERNATIVES.search(between))


def _offers_two(text: str) -> bool:
    """Whether an `or` stands between two numbers."""
    return any(ALTERNATIVES.search(text[left.end : right.start]) for left, right in pairwise(numbers(text)))


def _contradicts(sides: list[str], answer: Number) -> bool:
    """Whether a side of an equation, or a later sentence, is another number, with nothing to work out."""
    for side in sides:
        found = numbers(side)
        is_lone = len(found) == 1 and not re.search(r"\w", side[: found[0].start] + side[found[0].end :])
        if is_lone and found[0].value != answer.value:
            return True
    return False


def _is_cut_off(truth: Fraction, answer: Fraction, num_decimals: int) -> bool:
    """Whether `answer` is a non-terminating `truth` with its first decimals right."""
    below = truth.denominator
    for prime in (2, 5):
        while below % prime == 0:
            below //= prime
    if below == 1 or num_decimals < NUM_DECIMALS_OF_A_FRACTION:
        return False
    unit = Fraction(1, 10**num_decimals)
    return abs(answer - truth) < unit
