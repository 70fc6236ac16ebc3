r"""Where in a free-text reply the answer stands, and what stands before and behind it.

The last mark wins: `\boxed{...}`, or `####` to the end of its sentence; else the last `<answer>`. Without a mark it is
the last claim ("the answer is ...") with a word or number behind it, else the last sentence with a weaker cue ("total",
"it is", "="); without a cue the last sentence with a digit. What a check or an explanation at the end says comes after.

Decisions: only the last `LONGEST_REPLY` characters of a reply are read, which bounds the time of everything
behind; a box that is not closed holds no answer.
"""

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

LONGEST_REPLY = 20_000

SENTENCE_END = re.compile(r"\n|[.!?](?=[*_`\"')\]$]{0,4}(?:\s|$))")
NOTE = re.compile(r"<<[^<>\n]{0,200}>>|</?[A-Za-z][A-Za-z0-9]{0,20}>")
"""A calculator's note (`<<2*3=6>>`) or a tag."""
NOTE_BUT_ANSWER = re.compile(r"<<[^<>\n]{0,200}>>|</?(?!answer>)[A-Za-z][A-Za-z0-9]{0,20}>")
ANSWER_TAG = re.compile(r"<answer>(.{0,1000}?)</answer>", re.DOTALL | re.IGNORECASE)
CLAIM = re.compile(r"\banswers?\b[*_ ]{0,3}(?:(?:is|are|was|be|equals|should be|must be)\b|:|=)", re.IGNORECASE)
CUE = re.compile(
    r"\b(?:answers?|totals?|result|altogether|in all|equals|therefore|thus|hence|solution|it is|it's|gives"
    r"|we (?:get|have|find))\b|(?<![<>!])=(?![<>])",
    re.IGNORECASE,
)
ASIDE = re.compile(r"[\W_]*(?:check(?:ing)?|verif\w+|explanation|reason|proof)\b", re.IGNORECASE)
FILLER = re.compile(r"\b(?:is|are|was|be|as|follows|of|to|the|final)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """The part of a reply that speaks the answer: a mark's content, or a sentence from its cue on."""

    kind: Literal["mark", "cue", "plain"]
    before: str
    text: str
    after: str

    @property
    def sentence(self) -> str:
        """The sentence around, with what stands left of the cue."""
        return SENTENCE_END.split(self.before)[-1] + self.text


def answer_region(reply: str) -> Region:
    """Find the part of the reply that speaks the answer."""
    text = NOTE_BUT_ANSWER.sub(" ", reply[-LONGEST_REPLY:])
    box, hashes = text.rfind("\\boxed{"), text.rfind("####")
    if box < 0 and hashes < 0:
        tag = next(reversed(list(ANSWER_TAG.finditer(text))), None)
        if tag is not None:
            return Region(kind="mark", before=text[: tag.start()], text=tag[1], after=text[tag.end() :])
        return _of_sentences(NOTE.sub(" ", text))
    if box > hashes:
        start = box + len("\\boxed{")
        end = max(start, closing_brace(text, start))
        return Region(kind="mark", before=text[:box], text=text[start:end], after=text[end + 1 :])
    end = sentence_end(text, hashes + len("####"))
    return Region(kind="mark", before=text[:hashes], text=text[hashes + len("####") : end], after=text[end:])


def sentence_end(text: str, start: int) -> int:
    """Where the sentence ends that goes on at a position."""
    return next((end.start() for end in SENTENCE_END.finditer(text, start)), len(text))


def closing_brace(text: str, start: int) -> int:
    """Where the brace closes that is open at a position; -1 if nowhere. Escaped braces are text."""
    depth = 1
    for position in range(start, len(text)):
        if text[position] in "{}" and (position == 0 or text[position - 1] != "\\"):
            depth += 1 if text[position] == "{" else -1
            if depth == 0:
                return position
    return -1


def _of_sentences(text: str) -> Region:
    ends = [0, *(end.end() for end in SENTENCE_END.finditer(text)), len(text)]
    spans = [(start, end) for start, end in pairwise(ends) if text[start:end].strip(" \n.!?")]
    asides = [k for k, (start, end) in enumerate(spans) if k and ASIDE.match(text, start, end)]
    if asides and re.search(r"\w", text[: spans[asides[0]][0]]):
        spans = spans[: asides[0]]
    for cue in (CLAIM, CUE):
        for position in range(len(spans) - 1, -1, -1):
            start, end = spans[position]
            if cues := list(cue.finditer(text, start, end)):
                last = cues[-1]
                begin = last.start() if last.group() == "=" else last.end()
                if not _says_something(text[start:end], text[begin:end]) and position + 1 < len(spans):
                    end = spans[position + 1][1]
                elif cue is CLAIM and not _says_something("", text[begin:end]):
                    continue
                return _cut("cue", text, begin, end)
    with_digit = [span for span in spans if re.search(r"\d", text[span[0] : span[1]])]
    return _cut("plain", text, *(with_digit or spans or [(0, len(text))])[-1])


def _says_something(sentence: str, following: str) -> bool:
    return bool(re.search(r"\w", FILLER.sub("", following)) or re.search(r"[0-9]", sentence))


def _cut(kind: Literal["cue", "plain"], text: str, start: int, end: int) -> Region:
    """A region without the mark that ends its sentence; that, and a question it may make, stands behind."""
    inside = text[start:end].rstrip()
    length = len(inside.rstrip(".!?")) if SENTENCE_END.search(inside[-1:] + " ") else len(inside)
    return Region(kind=kind, before=text[:start], text=inside[:length], after=inside[length:] + text[end:])
