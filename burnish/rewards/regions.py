r"""Where in a free-text reply the answer stands.

The last mark wins: `\boxed{...}`, or `####` to the end of its line. Without a mark it is the last sentence
with an answer cue ("the answer is", "total", "="); without a cue the last sentence with a digit.

Decisions: only the last `LONGEST_REPLY` characters of a reply are read, which bounds the time of everything
behind; a box that is not closed holds no answer.
"""

import re
from dataclasses import dataclass
from typing import Literal

LONGEST_REPLY = 20_000

SENTENCE_END = re.compile(r"\n|[.!?](?=[*_`\"')\]$]{0,4}(?:\s|$))")
NOTE = re.compile(r"<<[^<>\n]{0,200}>>|</?[A-Za-z][A-Za-z0-9]{0,20}>")
"""A calculator's note (`<<2*3=6>>`) or a tag."""
CUE = re.compile(
    r"\b(?:answers?|totals?|result|altogether|in all|equals|therefore|thus|hence|solution)\b|(?<![<>!])=(?![<>])",
    re.IGNORECASE,
)
FILLER = re.compile(r"\b(?:is|are|was|be|as|follows|of|to|the|final)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """The part of a reply that speaks the answer; in a cue's sentence also what stands left of the cue."""

    kind: Literal["mark", "cue", "plain"]
    text: str
    before: str = ""
    sentence: str = ""
    later: tuple[str, ...] = ()
    """The sentences after a cue's."""

    @property
    def sentence_has_equation(self) -> bool:
        """Whether an equals sign stands in the sentence."""
        return "=" in self.sentence


def answer_region(reply: str) -> Region:
    """Find the part of the reply that speaks the answer."""
    text = NOTE.sub(" ", reply[-LONGEST_REPLY:])
    box, hashes = text.rfind("\\boxed{"), text.rfind("####")
    if box < 0 and hashes < 0:
        return _of_sentences([part for part in SENTENCE_END.split(text) if part.strip()])
    if box > hashes:
        return Region(kind="mark", text=_braced(text[box + len("\\boxed{") :]))
    return Region(kind="mark", text=text[hashes + len("####") :].partition("\n")[0])


def _braced(text: str) -> str:
    """The text up to the brace that closes one already open; empty where none does."""
    depth = 1
    for position, character in enumerate(text):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth == 0:
            return text[:position]
    return ""


def _of_sentences(sentences: list[str]) -> Region:
    for position in range(len(sentences) - 1, -1, -1):
        sentence = sentences[position]
        cues = list(CUE.finditer(sentence))
        if cues:
            last = cues[-1]
            following = sentence[last.start() if last.group() == "=" else last.end() :]
            if not re.search(r"\w", FILLER.sub("", following)) and not re.search(r"[0-9]", sentence):
                following = " ".join(sentences[position + 1 :][:1])
            return Region(
                kind="cue",
                text=following,
                before=sentence[: last.start()],
                sentence=sentence,
                later=tuple(sentences[position + 1 :]),
            )
    with_digit = [sentence for sentence in sentences if re.search(r"\d", sentence)]
    return Region(kind="plain", text=with_digit[-1] if with_digit else "".join(sentences[-1:]))
