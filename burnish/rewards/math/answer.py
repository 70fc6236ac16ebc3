r"""Which part of a reply is its one answer.

In order: what stands in the last `\boxed{...}` (with those before it that a comma, `and` or `or` joins to it), behind
the last `####`, inside the last `<answer>`; what follows the last cue ("the answer is"); the whole reply if it can be
read; the only numbers of the reply, if they are a time of day; the last formula of the last sentence that has one;
the last number, by `final_number`.

Decisions: thinking that is not closed holds no answer; neither does a box that is not closed, nor one that
"or" follows. Only the last `LONGEST_REPLY` characters are looked at.
"""

import re
from collections.abc import Callable

from burnish.rewards.final_number import final_number
from burnish.rewards.math.limits import Unreadable
from burnish.rewards.regions import NOTE, SENTENCE_END
from burnish.rewards.thinking import after_thinking

LONGEST_REPLY = 20_000
LONGEST_WHOLE = 600
LONGEST_JOINT = 40

BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
ANSWER_TAG = re.compile(r"<answer>(.{0,1000}?)</answer>", re.DOTALL | re.IGNORECASE)
JOINT = re.compile(r"[\s$]*(?:(?P<comma>,)|,?[\s$]*\\?(?:text\{)?\s*(?P<word>and|or)\s*\}?)[\s$]*")
HEDGE_BEHIND = re.compile(r"[\s$*.)\\\]]{0,6}(?:or|maybe|perhaps|possibly|alternatively)\b", re.IGNORECASE)
CUE = re.compile(
    r"\b(?:answers?|solutions?|result)\b[*_ ]{0,3}(?:(?:is|are|was|be|equals|should be|must be)\b|:|=)[*_: ]{0,5}",
    re.IGNORECASE,
)
FORMULA = re.compile(r"(?<!\\)\$\$?([^$]{1,400})(?<!\\)\$\$?|\\\((.{1,400}?)\\\)|\\\[(.{1,400}?)\\\]", re.DOTALL)
BETWEEN = re.compile(r"\s*(?:,|;|,?\s*(?:and|or))\s*|\s*")
NOTE_BUT_ANSWER = re.compile(r"<<[^<>\n]{0,200}>>")
REASON = re.compile(r"\b(?:because|since|as|where|which|so|if|when|by)\b|[(]\s*(?:because|since|as)\b", re.IGNORECASE)
NO_STATEMENT = re.compile(r"\b(?:not|never|no|than|except|unlike)\b|n't\b", re.IGNORECASE)
TIME_OF_DAY = re.compile(r"\b[0-2]?[0-9]:[0-5][0-9]\s?(?:[ap]m\b|[ap]\.m\.)", re.IGNORECASE)
BOLD = re.compile(r"(?<![\w)\]}])\*\*|\*\*(?![\w(\[{\\])|`")


def answer_of(reply: str, is_readable: Callable[[str], bool]) -> str:
    """The text of the one answer; `Unreadable` where there is none."""
    text = NOTE_BUT_ANSWER.sub(" ", _said(reply)[-LONGEST_REPLY:])
    boxes = list(BOX.finditer(text))
    hashes = text.rfind("####")
    if boxes and boxes[-1].start() > hashes:
        return _boxed(text, boxes)
    if hashes >= 0:
        return text[hashes + 4 :].strip().partition("\n")[0]
    if tags := ANSWER_TAG.findall(text):
        return tags[-1].strip()
    return _of_prose(BOLD.sub(" ", NOTE.sub(" ", text)).strip(), is_readable)


def _said(text: str) -> str:
    said = after_thinking(text)
    if said is None:
        raise Unreadable("thinking that is not closed")
    return said


def _boxed(text: str, boxes: list[re.Match[str]]) -> str:
    spans = [(box.start(), _closing(text, box.end())) for box in boxes[-20:]]
    starts = [box.end() for box in boxes[-20:]]
    last = len(spans) - 1
    if spans[last][1] < 0:
        raise Unreadable("a box that is not closed")
    if HEDGE_BEHIND.match(text, spans[last][1] + 1):
        raise Unreadable("an alternative behind the box")
    answer = text[starts[last] : spans[last][1]]
    while last > 0 and spans[last - 1][1] >= 0:
        between = text[spans[last - 1][1] + 1 : spans[last][0]]
        joint = JOINT.fullmatch(between) if len(between) <= LONGEST_JOINT else None
        if not joint:
            break
        last -= 1
        answer = f"{text[starts[last] : spans[last][1]]} {joint['comma'] or joint['word']} {answer}"
    return answer


def _closing(text: str, position: int) -> int:
    """Where the brace closes that is open at a position; -1 if nowhere."""
    depth = 1
    for at in range(position, len(text)):
        if text[at] in "{}" and (at == 0 or text[at - 1] != "\\"):
            depth += 1 if text[at] == "{" else -1
            if depth == 0:
                return at
    return -1


def _of_prose(text: str, is_readable: Callable[[str], bool]) -> str:
    if cues := list(CUE.finditer(text)):
        return _after_cue(text[cues[-1].end() :].strip(), is_readable)
    if len(text) <= LONGEST_WHOLE and is_readable(text):
        return text
    times = list(TIME_OF_DAY.finditer(text))
    if len(times) == 1 and len(re.findall(r"[0-9]+", text)) == 2 and not (NO_STATEMENT.search(text) or "?" in text):
        return times[0].group()
    sentences = [part for part in SENTENCE_END.split(text) if part.strip()]
    for sentence in reversed(sentences):
        if formulas := list(FORMULA.finditer(sentence)):
            return _last_formulas(sentence, formulas)
    number = (
        None if NO_STATEMENT.search(sentences[-1] if sentences else "") or text.endswith("?") else final_number(text)
    )
    return text if number is None else number.text


def _after_cue(text: str, is_readable: Callable[[str], bool]) -> str:
    sentence = next((part.strip() for part in SENTENCE_END.split(text) if part.strip()), "")
    if is_readable(sentence):
        return sentence
    head = REASON.split(sentence)[0].strip().rstrip(",").strip()
    return head if is_readable(head) else sentence


def _last_formulas(sentence: str, formulas: list[re.Match[str]]) -> str:
    """The last formula, with those that commas, `and` or `or` join to it."""
    answer = _inside(formulas[-1])
    for left, right in zip(reversed(formulas[:-1]), reversed(formulas), strict=False):
        between = sentence[left.end() : right.start()]
        if len(between) > LONGEST_JOINT or not BETWEEN.fullmatch(between):
            break
        answer = f"{_inside(left)} {between.strip() or ','} {answer}"
    return answer


def _inside(formula: re.Match[str]) -> str:
    return next(group for group in formula.groups() if group is not None)
