r"""The one letter that a reply chooses among labelled choices.

Where it stands is `regions`' matter (`\boxed{B}`, `#### B`, "the answer is B"); a reply without mark or cue is
its first label if that stands at the start, alone or before a mark (`B`, `(B)`, `B. Paris`, `Option B`, `-> B`), or the
label that it calls right and says no more (`B is correct`, `The best option is B.`).

Decisions: the case of a label counts, so that the article `a` is no choice; but a small letter is one where a bracket
closes behind it or nothing else is said (`b) Paris`, `(b)`, `option b`, `the answer is b.`), and no other label is
named. Full-width letters are letters. Tags are no part of a reply. Two different labels are no choice.
Not covered: choosing by repeating a choice's text.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from burnish.rewards import composed
from burnish.rewards.commitment import Candidate, objection
from burnish.rewards.commitment_words import ARTICLE, LEAD
from burnish.rewards.regions import LONGEST_REPLY, NOTE_BUT_ANSWER, answer_region

BARE = re.compile(
    r"\s*(?:(?:So|Thus|It is|It must be|I (?:would )?(?:choose|pick|select|say)),?\s)?(?:[Oo]ption|[Cc]hoice)?"
    r"[\s*_`\"'$\\({\[]{0,10}(?:(?:text|textbf|mathrm)\{?[\s*(]{0,4})?"
)
ARROW = re.compile(r"\s*(?:[-=]>|[→⇒➜])\s*")
RIGHT = "(?:best|correct|right)"
CHOICE = "(?:option|choice|one)"
CALLED_RIGHT = re.compile(
    rf"\s*(?:so,?\s|i (?:think|choose|pick)\s)?(?:the )?(?:{RIGHT} {CHOICE} is (?P<last>.{{1,20}}?)"
    rf"|(?:{CHOICE} )?(?P<first>.{{1,20}}?) is (?:the )?{RIGHT}(?: (?:answer|{CHOICE}))?)[\s.!*_]*",
    re.IGNORECASE,
)
NAMED_BEFORE = r"(?:\s*(?:[Oo]ption|[Cc]hoice|(?:[Tt]he )?[Aa]nswer(?: is|:))\s)?"
SMALL = re.compile(
    rf"(?P<before>{NAMED_BEFORE}[\s*_`\"'$(\[]{{0,9}})"
    r"(?P<letter>[a-z])(?P<behind>[*_`\"'$]{0,3}(?:[)\]].*|[\s.]*))",
    re.DOTALL,
)
MARKED_AFTER = re.compile(r"[*_ ]{0,3}[).:\]-]|[\s*_`\"'$\\)}\].]*$")


def chosen(reply: str, labels: Sequence[str]) -> str | None:
    """Read the chosen label; None where there is not exactly one."""
    said = NOTE_BUT_ANSWER.sub(" ", composed.nfkc(reply[-LONGEST_REPLY:]))
    reply = _in_capitals(ARROW.sub(" ", said, count=1) if ARROW.match(said) else said, labels)
    called = CALLED_RIGHT.fullmatch(reply)
    if called and (label := _alone(called["last"] or called["first"], labels)):
        return label
    region = answer_region(reply)
    if region.kind == "mark":
        region = replace(region, text=_in_capitals(region.text, labels))
    found = _labels_in(region.text, labels)
    if region.kind == "plain" or (region.kind == "cue" and not found):
        return _at_start(reply.strip(), labels)
    if not found or (len({one.group() for one in found}) > 1 and not LEAD.fullmatch(region.text, 0, found[0].start())):
        return None
    before, after = region.before + region.text[: found[0].start()], region.text[found[0].end() :] + region.after
    return _committed(before, found[0].group(), after, labels)


def _committed(before: str, label: str, after: str, labels: Sequence[str]) -> str | None:
    def find(text: str) -> list[Candidate]:
        return [Candidate(one.start(), one.end(), one.group() == label) for one in _labels_in(text, labels)]

    return None if objection(before, after, find) else label


def _alone(text: str, labels: Sequence[str]) -> str | None:
    """The label that a few words are, with brackets or bold around it and nothing else."""
    bare = _in_capitals(re.sub(r"^(?:option|choice)\s", "", text, flags=re.IGNORECASE), labels)
    return next((label for label in labels if bare.strip(" *_`\"'$().[]") == label), None)


def _in_capitals(text: str, labels: Sequence[str]) -> str:
    """A small label that opens a reply and cannot be a word, as the label that it stands for."""
    small = SMALL.fullmatch(text)
    letters = "".join(label.lower() for label in labels if len(label) == 1 and label.isupper())
    if small is None or small["letter"] not in letters or small["letter"] in labels:
        return text
    # The article is another label only where it cannot be an article.
    others = re.findall(rf"\b(?:(?!a)[{letters}]|a(?=\s*(?:[^\w\s]|$)))\b", small["behind"])
    return text if others else f"{small['before']}{small['letter'].upper()}{small['behind']}"


def _labels_in(text: str, labels: Sequence[str]) -> list[re.Match[str]]:
    pattern = "|".join(re.escape(label) for label in labels)
    return list(re.finditer(rf"(?<![A-Za-z0-9'])(?!{ARTICLE})(?:{pattern})(?![A-Za-z0-9'])", text))


def _at_start(text: str, labels: Sequence[str]) -> str | None:
    opening = BARE.match(text)
    start = opening.end() if opening else 0
    found = [
        label for label in labels if text.startswith(label, start) and MARKED_AFTER.match(text, start + len(label))
    ]
    if len(found) != 1 or any(one.group() != found[0] for one in _labels_in(text[start:], labels)):
        return None
    return _committed("", found[0], text[start + len(found[0]) :], labels)
