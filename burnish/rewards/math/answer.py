r"""Which part of a reply is its one answer.

In order: what stands in the last `\boxed{...}` (with those before it that a comma, `and` or `or` joins to it), behind
the last `####`, inside the last `<answer>`; what follows the last cue ("the answer is"); the whole reply if it can be
read; the only numbers of the reply, if they are a time of day; the last formula of the last sentence that has one;
the last number, by `final_number`.

Decisions: thinking that is not closed holds no answer; neither does a box that is not closed. Behind a cue the answer
is the sentence, or what stands in it before the first word that begins something else (`because`, `if`, ...). Whether
the reply commits to what was found is `commitment`'s matter. Only the last `LONGEST_REPLY` characters are looked at.
"""

import re
from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

from burnish.rewards.commitment import is_doubted, objection
from burnish.rewards.final_number import final_number
from burnish.rewards.math.candidates import finder
from burnish.rewards.math.limits import Unreadable
from burnish.rewards.regions import ANSWER_TAG, NOTE, SENTENCE_END, closing_brace, sentence_end
from burnish.rewards.thinking import after_thinking

LONGEST_REPLY = 20_000
LONGEST_WHOLE = 600
LONGEST_JOINT = 40

BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
JOINT = re.compile(r"[\s$]*(?:(?P<comma>,)|,?[\s$]*\\?(?:text\{)?\s*(?P<word>and|or)\s*\}?)[\s$]*")
CUE = re.compile(
    r"\b(?:answers?|solutions?|result)\b[*_ ]{0,3}(?:(?:is|are|was|be|equals|should be|must be)\b|:|=)[*_: ]{0,5}",
    re.IGNORECASE,
)
FORMULA = re.compile(r"(?<!\\)\$\$?([^$]{1,400})(?<!\\)\$\$?|\\\((.{1,400}?)\\\)|\\\[(.{1,400}?)\\\]", re.DOTALL)
VARIABLE = re.compile(r"\$\s?\\?[A-Za-z]\s?\$")
BETWEEN = re.compile(r"\s*(?:,|;|,?\s*(?:and|or))\s*|\s*")
NOTE_BUT_ANSWER = re.compile(r"<<[^<>\n]{0,200}>>")
HEAD_END = re.compile(
    r"(?:\s*[,;:]\s*|\s)(?:because|since|as|where|which|so|is|was|can|cannot|could|would|if|when|by|for|on|at|from|with|unless|while|though|although|but|not"
    r"|in(?!\s*[\[(\\{$])|rather|instead|depending|assuming|given|obtained|maybe|perhaps|possibly|probably|otherwise"
    r"|alternatively)\b|\s*\(\s*[a-z]{2}",
    re.IGNORECASE,
)
NEXT_SENTENCE = re.compile(r"[.!?]\s+[A-Za-z]{2}")
LIST_END = re.compile(r"\s*[,;:(](?![0-9])|\s(?:or|and)\b", re.IGNORECASE)
IS_SHORT = re.compile(r"[^0-9]*[0-9$\\]|(?:yes|no|true|false|[A-Z])[\s*_]*", re.IGNORECASE)
MOST_HEADS = 12
LEAD = re.compile(
    r"(?:(?:so|thus|hence|therefore|then|exactly|simply|just|only|indeed|clearly|we (?:get|have)|it is|equal to"
    r"|given by)\b[,:]?\s)*",
    re.IGNORECASE,
)
TIME_OF_DAY = re.compile(r"\b[0-2]?[0-9]:[0-5][0-9]\s?(?:[ap]m\b|[ap]\.m\.)", re.IGNORECASE)
BOLD = re.compile(r"(?<![\w)\]}])\*\*|\*\*(?![\w(\[{\\])|`")


class _Found(NamedTuple):
    """An answer, and what stands before and behind it."""

    text: str
    before: str = ""
    after: str = ""


def answer_of(reply: str, is_readable: Callable[[str], bool]) -> str:
    """The text of the one answer; `Unreadable` where there is none, or the reply does not commit to it."""
    found = _found(reply, is_readable)
    if re.search(r"[0-9]", found.text) and is_doubted(found.text):
        raise Unreadable("words of doubt in the answer")
    if why := objection(found.before, found.after, finder(found.text)):
        raise Unreadable(why)
    return found.text


def answer_in_truth(truth: str, is_readable: Callable[[str], bool]) -> str:
    """The text of the answer of a worked solution, which may name others."""
    return _found(truth, is_readable).text


def _found(reply: str, is_readable: Callable[[str], bool]) -> _Found:
    text = NOTE_BUT_ANSWER.sub(" ", _said(reply)[-LONGEST_REPLY:])
    boxes = list(BOX.finditer(text))
    hashes = text.rfind("####")
    if boxes and boxes[-1].start() > hashes:
        return _boxed(text, boxes)
    if hashes >= 0:
        return _head(text, hashes + 4, sentence_end(text, hashes + 4), is_readable)._replace(before=text[:hashes])
    if tags := list(ANSWER_TAG.finditer(text)):
        return _Found(tags[-1][1].strip(), text[: tags[-1].start()], text[tags[-1].end() :])
    return _of_prose(BOLD.sub(" ", NOTE.sub(" ", text)).strip(), is_readable)


def _said(text: str) -> str:
    said = after_thinking(text)
    if said is None:
        raise Unreadable("thinking that is not closed")
    return said


def _boxed(text: str, boxes: list[re.Match[str]]) -> _Found:
    spans = [(box.start(), closing_brace(text, box.end())) for box in boxes[-20:]]
    starts = [box.end() for box in boxes[-20:]]
    last = len(spans) - 1
    if spans[last][1] < 0:
        raise Unreadable("a box that is not closed")
    answer, after = text[starts[last] : spans[last][1]], text[spans[last][1] + 1 :]
    while last > 0 and spans[last - 1][1] >= 0:
        between = text[spans[last - 1][1] + 1 : spans[last][0]]
        joint = JOINT.fullmatch(between) if len(between) <= LONGEST_JOINT else None
        if not joint:
            break
        last -= 1
        answer = f"{text[starts[last] : spans[last][1]]} {joint['comma'] or joint['word']} {answer}"
    return _Found(answer, text[: spans[last][0]], after)


def _of_prose(text: str, is_readable: Callable[[str], bool]) -> _Found:
    if cues := list(CUE.finditer(text)):
        return _after_cue(text, cues[-1].end(), is_readable)
    whole = text[_behind_lead(text, 0) :]
    is_prose = re.search(r"[0-9]", whole) and (HEAD_END.search(whole) or NEXT_SENTENCE.search(whole))
    if len(text) <= LONGEST_WHOLE and not is_prose and is_readable(whole):
        return _Found(whole)
    times = list(TIME_OF_DAY.finditer(text))
    if len(times) == 1 and len(re.findall(r"[0-9]+", text)) == 2:
        return _between(text, *times[0].span())
    ends = [0, *(end.end() for end in SENTENCE_END.finditer(text)), len(text)]
    for start, end in zip(ends[-2::-1], ends[::-1], strict=False):
        formulas = [one for one in FORMULA.finditer(text, start, end) if not VARIABLE.fullmatch(one.group())]
        if formulas:
            return _last_formulas(text, formulas)
    number = final_number(text)
    return _Found(text if number is None else number.said)


def _between(text: str, start: int, end: int) -> _Found:
    return _Found(text[start:end], text[:start], text[end:])


def _after_cue(text: str, start: int, is_readable: Callable[[str], bool]) -> _Found:
    """The sentence behind a cue, or the shortest readable beginning of it that something else follows."""
    start += len(text[start:]) - len(text[start:].lstrip(" \n.!?"))
    return _head(text, start, sentence_end(text, start), is_readable)


def _head(text: str, start: int, end: int, is_readable: Callable[[str], bool]) -> _Found:
    start = min(end, _behind_lead(text, start))
    heads = [end.start() for end in islice(HEAD_END.finditer(text, start, end), MOST_HEADS)]
    parts = [end.start() for end in islice(LIST_END.finditer(text, start, end), MOST_HEADS)]
    ends = [head for head in heads if IS_SHORT.match(text, start, head)] + [end] + sorted([*heads, *parts])
    best = next((end for end in ends if end > start and is_readable(text[start:end])), end)
    return _between(text, start, best)


def _behind_lead(text: str, start: int) -> int:
    lead = LEAD.match(text, start)
    return lead.end() if lead else start


def _last_formulas(text: str, formulas: list[re.Match[str]]) -> _Found:
    """The last formula, with those that commas, `and` or `or` join to it."""
    answer, start = _inside(formulas[-1]), formulas[-1].start()
    for left, right in zip(reversed(formulas[:-1]), reversed(formulas), strict=False):
        between = text[left.end() : right.start()]
        if len(between) > LONGEST_JOINT or not BETWEEN.fullmatch(between):
            break
        answer = f"{_inside(left)} {between.strip() or ','} {answer}"
        start = left.start()
    return _Found(answer, text[:start], text[formulas[-1].end() :])


def _inside(formula: re.Match[str]) -> str:
    return next(group for group in formula.groups() if group is not None)
