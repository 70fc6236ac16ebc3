r"""Whether a reply commits to the answer that was read in it: one rule for numbers, expressions and choices.

The rule. *Before* the answer its clause must not deny it or make it uncertain, and no earlier claim (`the answer is`, a
box, `####`) may give another answer, unless a word of correction stands between the two; between two boxes a word of
consequence will do (a step that was boxed). *Behind* it, in its sentence and all that follow, another candidate of the
same kind may stand only in an explanation. An explanation offers nothing (no `or`, `if`, `might`, `also`, ...), and
either says that it is one (`because`, `Check:`) and has words beside numbers, or is an equation that was worked out and
in which the answer has a part, or names amounts of something (`9 eggs`), or, in a later sentence, calls the candidate
wrong. A text whose last candidate is the answer again may name any before: it begins and ends with one answer, so that
none of the others can be paid.

Decisions: what a candidate is, and which are the answer again (also in another unit), says a `Find`. A condition
such as `if x = 2` offers nothing by itself. A question states nothing. Doubt counts without another candidate too.
Rather too strict: an unclear explanation loses the reward, since an honest reply can always say its answer and stop.
Not covered: candidates in words that no `Find` knows; doubts in other languages than English.
"""

import re
from collections.abc import Callable
from itertools import takewhile
from typing import Literal, NamedTuple

from burnish.rewards import commitment_words as say
from burnish.rewards import units
from burnish.rewards.regions import SENTENCE_END

MOST_CLAIMS = 100
LONGEST_CLAIM = 200
LONGEST_CLAUSE = 300
LONGEST_LEAD = 40


class Candidate(NamedTuple):
    """A stretch of a text that could be an answer: whether it is the answer again, or an equation that holds."""

    start: int
    end: int
    is_same: bool
    is_worked: bool = False
    uses_answer: bool = False
    ends_in_answer: bool = False
    """Whether its last number is the answer's, in whatever unit."""


Find = Callable[[str], list[Candidate]]

CAPITAL = re.compile(r"[A-Z]")
HAS_UNIT = re.compile(r"[0-9] [A-Za-z]{2,}\Z")


def objection(before: str, after: str, find: Find) -> str:
    """Why a reply does not commit to the answer between `before` and `after`; empty if it does."""
    before = say.LIST_MARK.sub("", before)
    behind = _sentences(say.LIST_MARK.sub("", say.ABBREVIATION.sub(r"\1\2\3\4\5\6", after)))
    ahead = say.WAIT.split(_sentences(before)[-1][-LONGEST_CLAUSE:])[-1]
    tail = behind[0]
    if tail.endswith("?") or say.ASKS.match(ahead):
        return "the answer is asked and not stated"
    if say.DENIED_BEHIND.match(tail):
        return "the answer is denied"
    if why := _denied(ahead):
        return why
    clause = _clause(say.OPENING.sub("", ahead))
    others = [one for one in find(ahead) if not (one.is_same or one.is_worked)]
    if others and say.OFFER.search(f"{_without_when(clause, find)} ; {say.CONDITION.sub(' ', tail)}"):
        return "one of several answers in one sentence"
    return _earlier(before, find) or _later(behind, find)


def is_doubted(text: str) -> bool:
    """Whether words of doubt or denial stand in an answer's own text."""
    return say.UNSURE.search(text) is not None or say.DENIES.search(text) is not None


def _sentences(text: str) -> list[str]:
    """The sentences with their marks of question; at least one."""
    found, start = [], 0
    for end in SENTENCE_END.finditer(text):
        found.append(text[start : end.start()] + end.group().strip().replace(".", "").replace("!", ""))
        start = end.end()
    return [*found, text[start:]]


def _clause(ahead: str) -> str:
    """The last clause that says something."""
    ends = [0, *(end.end() for end in say.CLAUSE_END.finditer(ahead))]
    return next((ahead[start:] for start in reversed(ends) if re.search(r"[A-Za-z]", ahead[start:])), ahead)


def _without_when(clause: str, find: Find) -> str:
    """A clause without the words of time before its first candidate: what they tell of is no alternative to it."""
    first = next((one.start for one in find(clause)), 0)
    return say.WHEN.sub(" ", clause[:first]) + clause[first:]


def _denied(ahead: str) -> str:
    clause = _clause(ahead)
    denials = list(say.DENIAL.finditer(clause))
    if (denials and not say.COPULA.search(clause, denials[-1].end())) or say.DISBELIEF.search(clause):
        return "the answer is denied"
    if say.FIRST_DOUBT.match(ahead) or say.DOUBT.search(clause):
        return "the answer is doubted"
    return ""


def _earlier(before: str, find: Find) -> str:
    """Whether an earlier claim gives another answer, and nothing corrects it."""
    claims = list(say.CLAIM.finditer(before))[-MOST_CLAIMS:]
    for claim, following in zip(claims, [*claims[1:], None], strict=False):
        end = min(following.start() if following else len(before), claim.end() + LONGEST_CLAIM)
        said = before[claim.end() : end].partition("\n")[0].partition("</")[0]
        first = next(iter(find(said)), None)
        if first is None or first.is_same or not say.LEAD.fullmatch(said, 0, first.start):
            continue
        between = before[claim.end() + first.end :]
        is_step = claim["mark"] and say.CONSEQUENCE.search(between) and not say.DOUBT.search(between)
        if not (is_step or say.CORRECTION.search(between)):
            return "another answer was claimed before and not taken back"
    return ""


def _later(sentences: list[str], find: Find) -> str:
    """Whether what follows the answer offers another or takes it back."""
    said = [say.CONDITION.sub(_blank, sentence) for sentence in sentences]
    found = [find(sentence) for sentence in said]
    heading = next((position for position, sentence in enumerate(said) if say.HEADING.match(sentence)), len(said))
    leads_back = any(one.is_same or one.uses_answer for candidates in found for one in candidates)
    end = _end_of_derivation(said, found)
    for position, (sentence, candidates) in enumerate(zip(said, found, strict=True)):
        if 0 < position <= end:
            continue
        others = [one for one in candidates if not one.is_same]
        if say.FIRST_DOUBT.match(sentence) and (position < 2 or others):
            return "an alternative behind the answer"
        is_tail = position == 0 and not say.COLON.match(sentence)
        place = "explanation" if position > heading else "tail" if is_tail else "later"
        if others and not _explains(sentence, others, place, leads_back=leads_back):
            return "another answer behind the answer"
        if say.TAKES_BACK.search(sentence) or (not others and position == 0 and say.DOUBT.search(sentence)):
            return "the answer is taken back, or doubted"
    return ""


def _end_of_derivation(said: list[str], found: list[list[Candidate]]) -> int:
    """The sentence in which a text comes back to the answer, as its last candidate; 0 where it does not."""
    last = max((position for position, candidates in enumerate(found) if candidates), default=0)
    comes_back = last > 0 and (found[last][-1].is_same or found[last][-1].ends_in_answer)
    return last if comes_back and not (say.DOUBT.search(said[last]) or say.DENIES.search(said[last])) else 0


def _blank(match: re.Match[str]) -> str:
    return " " * len(match.group())


def _explains(
    sentence: str, others: list[Candidate], place: Literal["tail", "later", "explanation"], *, leads_back: bool
) -> bool:
    """Whether a sentence names other candidates only to explain the answer."""
    if say.OFFER.search(sentence) or any(_is_stated(sentence, one) for one in others):
        return False
    opening = say.EXPLAINS.search(sentence, 0, others[0].start)
    if opening or place == "explanation":
        num_words = len(re.findall(r"[A-Za-z]{2,}", sentence[opening.start() if opening else 0 :]))
        return num_words > sum(not one.is_worked for one in others)
    unexplained = [one for one in others if not (one.is_worked and leads_back)]
    if place == "tail":
        return all(_is_amount(sentence, one) and say.OF_SOMETHING.search(_lead(sentence, one)) for one in unexplained)
    if say.REFUTED.search(sentence) and not say.REFUTED_TWICE.search(sentence):
        return True
    return not unexplained or (
        _is_amount(sentence, unexplained[0]) and len(re.findall(r"[A-Za-z]+", sentence[: unexplained[0].start])) > 1
    )


def _is_stated(sentence: str, one: Candidate) -> bool:
    """Whether a sentence says that the answer, or it, is this candidate."""
    if one.is_worked or say.RELATIVE.match(sentence, one.end):
        return False
    return say.STATES.search(_lead(sentence, one)) is not None


def _lead(sentence: str, one: Candidate) -> str:
    return sentence[max(0, one.start - LONGEST_LEAD) : one.start]


def _is_amount(sentence: str, one: Candidate) -> bool:
    """Whether a number is followed by what it counts or measures."""
    if CAPITAL.fullmatch(sentence, one.start, one.end):
        return False
    if HAS_UNIT.search(sentence, one.start, one.end):
        return True
    words = say.PHRASE.match(sentence, one.end)
    if words is None:
        return False
    phrase = takewhile(lambda word: word and not say.NO_PHRASE.fullmatch(word), words.groups())
    return any(say.THINGS.fullmatch(word) or units.lookup(word) is not None for word in phrase)
