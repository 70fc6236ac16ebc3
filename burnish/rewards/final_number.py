r"""The final number of a free-text reply.

Where it stands is `regions`' matter. In a mark (`####`, `\boxed{}`) all numbers must have one value; behind a
cue it is the number right after the cue, else the last one of the sentence; without a cue it is the last
number of the last sentence that has one. Whether the reply commits to it is `commitment`'s matter.

Decisions: what is not one number is no answer: ranges (3-5), clock times (2:14), dates, ratios, powers,
lists, `7 or 8` (also before an equals sign), `18 dollars and 50 cents`, `a = b` with two different numbers,
`3 to 3`, another number alone on a line of a reply without a cue. Number words (`eighteen dollars`) count where there
is no digit and nothing else is said. A decimal equals a non-terminating truth from six correct decimals on
(rounded or cut off). `18%` is 18 to a truth of 18 and 0.18 to a truth of 0.18: a sign may be left out, not
exchanged for another value. `18 hours, which is 1080 minutes` is read as 18.
Not covered: arithmetic that is not carried out (`3 + 15` without its sum).
"""

import re
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

from burnish.rewards import number_words, units
from burnish.rewards.commitment import is_doubted, objection
from burnish.rewards.commitment_words import CONSEQUENCE, EXPLAINS, LIST_MARK
from burnish.rewards.math.candidates import finder
from burnish.rewards.numbers import Number, numbers, plain
from burnish.rewards.regions import SENTENCE_END, Region, answer_region

NUM_DECIMALS_OF_A_FRACTION = 6

ALTERNATIVES = re.compile(r"\b(?:or|either|maybe|perhaps|possibly|alternatively)\b", re.IGNORECASE)
JOINED = re.compile(
    r"[^\w=]{0,9}(?:(?!(?:for|at|in|per|on|with|from|is|was|are|makes|gives|if|because|since)\b)[A-Za-z]{1,20}\b)?"
    r"[^\w=]{0,9}(?:and|to|through|until|of|out of|by)?[^\w=]{0,9}",
    re.IGNORECASE,
)
JOINED_ALIKE = re.compile(r"\W{0,9}(?:\b(?:and|or|to|through|until)\b|[-\u2013\u2014])\W{0,9}", re.IGNORECASE)
LEADS_TO_NUMBER = re.compile(
    r"(?:[^\w.]|\b(?:is|are|was|will|be|of|to|equals|comes|amounts|about|only|just|therefore|thus|the|a|it|there|cost"
    r"|price|number|amount|value|sum|must|should|exactly|simply)\b){0,24}"
)
WORD_BEHIND = re.compile(r" ?([A-Za-z]{1,12})(\^ ?[0-9])?(?![A-Za-z0-9])")
WHICH_IS = re.compile(r"\b(?:which|that) (?:is|equals|makes)\s$")
WORKED = re.compile(r"[0-9](?:[-0-9.$%+*/^()\u00d7\u00f7\u22c5\u00b7x= ]|,(?=[0-9])){1,200}=\s*(?=\S)")
"""What an answer was worked out from: `48 + 24 = ` before 72."""
REASON = re.compile(EXPLAINS.pattern + r"|\s[(\[][^()\[\]]*[)\]]\W*$", re.IGNORECASE)
LEADS_TO_WORDS = re.compile(r"[\s:=*_]*(?:(?:is|are|was|be|equals)\b[\s:*_]*)?", re.IGNORECASE)


def final_number(reply: str) -> Number | None:
    """Read the number that a reply gives as its answer; None where there is not exactly one."""
    region = answer_region(reply)
    if not any(map(str.isnumeric, reply)):
        return _of_words(region)
    number = _of_mark(region) if region.kind == "mark" else _of_sentence(region)
    return number if number is not None and number.value is not None else None


def _of_words(region: Region) -> Number | None:
    lead = LEADS_TO_WORDS.match(region.text)
    said = region.text[lead.end() :] if lead else region.text
    value = number_words.in_digits(said)
    found = numbers(value)
    return None if len(found) != 1 or value == said or _objection(region.before, value, region.after) else found[0]


def is_same_number(truth: Number, answer: Number) -> bool:
    """Compare two read numbers by the policy above."""
    assert truth.value is not None and answer.value is not None
    values = {answer.value} | ({answer.converted} if answer.converted is not None else set())
    if answer.is_percent != truth.is_percent:
        values |= {answer.value / 100} if answer.is_percent else {answer.value * 100}
    return truth.value in values or any(_is_cut_off(truth.value, value, answer.num_decimals) for value in values)


def _of_mark(region: Region) -> Number | None:
    reason = REASON.search(region.text)
    end = reason.start() if reason and any(map(str.isdigit, region.text[: reason.start()])) else len(region.text)
    text, after = plain(region.text[:end]), region.text[end:] + region.after
    if text.rstrip().endswith("?") or number_words.spans(text):
        return None
    sides = text.split("=")
    found = next((there for side in reversed(sides) if (there := numbers(side))), [])
    values = {number.value for number in found}
    if len(values) != 1 or _contradicts(sides, found[-1]) or is_doubted(text):
        return None
    return None if _objection(_plain_lines(region.before), found[-1].text, _plain_lines(after)) else found[-1]


def _of_sentence(region: Region) -> Number | None:
    whole = _plain_lines(region.before)
    start = len(whole)
    whole += plain(region.text)
    found = numbers(whole)
    following = [number for number in found if number.start >= start]
    begin = len(whole) - len(plain(region.sentence))
    found = following or [number for number in found if number.start >= begin]
    if not found:
        return None
    is_led_to = region.kind == "cue" and bool(following) and LEADS_TO_NUMBER.fullmatch(whole, start, found[0].start)
    worked = WORKED.match(whole, found[0].start) if is_led_to else None
    if worked:
        found = [number for number in found if number.start >= worked.end()]
        if not found:
            return None
    reason = None if is_led_to else REASON.search(whole, found[0].end)
    if reason and not CONSEQUENCE.search(whole, reason.end()):
        found = [number for number in found if number.start < reason.start()]
    position = 0 if is_led_to else len(found) - 1
    answer = found[position]
    if position and (in_other_unit := _in_other_unit(whole, found[position - 1], answer)):
        position, answer = position - 1, in_other_unit
    if any(_are_joined(whole, *pair) for pair in pairwise(found[max(position - 1, 0) : position + 1])):
        return None
    if any(_are_alike(whole, *pair) for pair in pairwise(found[position : position + 2])):
        return None
    if _offers_two(whole[begin:start]) or _contradicts(_sides(region), answer):
        return None
    before = whole[: worked.start() if worked else answer.start]
    return None if _objection(before, answer.text, whole[answer.end :] + _plain_lines(region.after)) else answer


def _plain_lines(text: str) -> str:
    return "\n".join(map(plain, text.split("\n")))


def _sides(region: Region) -> list[str]:
    """What may be another number alone: sides of an equation, and without a cue every other line."""
    sides = plain(region.sentence).split("=") if "=" in region.sentence else []
    earlier = SENTENCE_END.split(LIST_MARK.sub("", region.before)) if region.kind == "plain" else []
    return sides + [plain(sentence) for sentence in earlier]


def _in_other_unit(text: str, first: Number, second: Number) -> Number | None:
    """The first of two numbers, where the second says the same in another unit (`5 hours, which is 300 minutes`)."""
    units_behind = [_unit_behind(text[number.end :]) for number in (first, second)]
    if not all(units_behind) or not WHICH_IS.search(text, first.end, second.start):
        return None
    is_same = [one.is_same for one in finder(first.text + units_behind[0])(second.text + units_behind[1])]
    return replace(first, unit=units_behind[0].strip(), converted=second.value) if is_same == [True] else None


def _unit_behind(text: str) -> str:
    word = WORD_BEHIND.match(text)
    return word.group() if word and (word[2] or (word[1] != "in" and units.lookup(word[1]) is not None)) else ""


def _objection(before: str, answer: str, after: str) -> str:
    unit = _unit_behind(after)
    return objection(before, after[len(unit) :], finder(answer + unit))


def _are_joined(text: str, left: Number, right: Number) -> bool:
    """Whether two numbers are one expression or two offers, and not two facts."""
    between = text[left.end : right.start]
    if left.value == right.value and left.value is not None:
        return _are_alike(text, left, right)
    return bool(JOINED.fullmatch(between) or ALTERNATIVES.search(between))


def _are_alike(text: str, left: Number, right: Number) -> bool:
    """Whether one value stands at both ends of what looks like a range."""
    return left.value == right.value and JOINED_ALIKE.fullmatch(text, left.end, right.start) is not None


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
