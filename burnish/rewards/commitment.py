r"""Whether a reply commits to the answer that was read in it: one rule for numbers, expressions and choices.

The rule. *Before* the answer its clause must not deny it or make it uncertain, and no earlier claim (`the answer is`, a
box, `####`) may give another answer, unless a word of correction stands between the two; between two boxes a word of
consequence will do (a step that was boxed). *Behind* it, in its sentence and all that follow, another candidate of the
same kind may stand only in an explanation. An explanation offers nothing (no `or`, `if`, `might`, `also`, ...), and
either says that it is one (`because`, `Check:`), or is an equation that was worked out and in which the answer has a
part, or names amounts of something (`9 eggs`), or, in a later sentence, calls the candidate wrong.

Decisions: what a candidate is, and which are the answer again (also in another unit), says a `Find`. A condition
such as `if x = 2` offers nothing by itself. A question states nothing. Doubt counts without another candidate too.
Rather too strict: an unclear explanation loses the reward, since an honest reply can always say its answer and stop.
Not covered: candidates in words that no `Find` knows; doubts in other languages than English.
"""

import re
from collections.abc import Callable
from typing import Literal, NamedTuple

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


Find = Callable[[str], list[Candidate]]

BE = r"(?:is|are|was|were|be|been|equals?|would|will|should|must)"
CLAIM = re.compile(
    rf"(?P<mark>\\(?:boxed|fbox)\b|####|<answer>)|\b(?:answers?|solution)\b(?:\W{{0,4}}\b{BE}\b|[\W_]{{0,3}}[:=]){{1,3}}",
    re.IGNORECASE,
)
LEAD = re.compile(rf"(?:[\W_]|\b(?:{BE}|option|choice|text\w*|math\w*|simply|just|exactly|therefore|the|to)\b){{0,30}}")
CORRECTION = re.compile(
    r"\b(?:wait|no[,.:;!]|no wait|nope|wrong|incorrect|corrections?|corrected|mistaken?|sorry|actually|oops"
    r"|scratch that)(?![A-Za-z])",
    re.IGNORECASE,
)
CONSEQUENCE = re.compile(r"\b(?:then|so|thus|hence|therefore|now|next|finally|gives|giving|yields?)\b", re.IGNORECASE)

WAIT = re.compile(r"\bwait\b", re.IGNORECASE)
CLAUSE_END = re.compile(
    r"[,;:](?![0-9])|[\u2014(]|\b(?:so|thus|hence|therefore|then|and|because|since)\b", re.IGNORECASE
)
COPULA = re.compile(r"\b(?:is|are|was|were|equals?|gives?|makes?|leaves?)\b|=", re.IGNORECASE)
DENIAL = re.compile(
    r"\b(?:not|never|neither|nor|no|cannot|hardly|without|except|unlike|excluding|than|but(?=\W*$))\b|n['\u2019]t\b",
    re.IGNORECASE,
)
DISBELIEF = re.compile(
    r"(?:\bnot|\bnever|\bcannot|\bhardly|n['\u2019]t)\s(?:\w+\s)?(?:think|believe|say|claim|agree|suppose|mean|expect|true"
    r"|correct|right|sure|certain|clear|the case|possible)\b|\b(?:un(?:sure|certain|likely|true)|impossible|wrong"
    r"|incorrect|false|refuse|(?<!no )(?<!without )doubt\w*)\b(?!\W*$)",
    re.IGNORECASE,
)
UNSURE = re.compile(
    r"\b(?:maybe|perhaps|possibly|probably|presumably|supposedly|unless|alternatively|guess|might"
    r"|(?:most |very )?likely(?= (?:that|to be|the answer|it)\b|\W*$)"
    r"|(?:may|could|can)(?: (?:also|well|just|even|\w+ly))* (?:be|equal|have been))\b"
    r"|\b(?:not|n['\u2019]t)(?: \w+)? (?:sure|certain)\b|\bun(?:sure|certain)\b",
    re.IGNORECASE,
)
DOUBT = re.compile(UNSURE.pattern + r"|\b(?:or|otherwise|else|either(?! way| case))\b", re.IGNORECASE)
FIRST_DOUBT = re.compile(
    r"[\W_]*(?:or(?!,? (?:equivalently|in other words|simply))|else|alternatively|otherwise|maybe|perhaps"
    r"|possibly|probably)\b",
    re.IGNORECASE,
)
OFFER = re.compile(
    DOUBT.pattern + r"|\b(?:if|when|whenever|also|nor|may|could|possible|alternatives?|another|others?|some|instead"
    r"|both|as well|depend\w*|versus|vs|in case|on second thought|then again|actually|wait)\b|\btoo\W*$",
    re.IGNORECASE,
)
CONDITION = re.compile(
    r"\b(?:if|when|where|for|with|at|let|given|since)\s[$\\(]{0,3}[A-Za-z](?:_\w)?\s?(?:=|[<>]=?|[≤≥≠]|\\(?:le|ge|ne|lt|gt)q?\b)"
    r"\s?-?[0-9./]{1,20}(?:\\\)|\$)?",
    re.IGNORECASE,
)
OPENING = re.compile(r"\A\s*(?:if|when)\b", re.IGNORECASE)
EXPLAINS = re.compile(
    r"\b(?:because|since|as(?! well\b)|given|due to|reason(?:ing)?|explanation|check(?:ing)?|proof|verif\w+|steps?"
    r"|by \w+ing|obtained|that is|where we used)\b",
    re.IGNORECASE,
)
AMOUNT = re.compile(
    r"[\s*]{1,3}(?!(?:is|are|was|were|if|or|and|when|in|for|as|at|by|of|to|on|the|that|which|not|too|also|works?|would|could"
    r"|may|might|has|have|gives|makes|but|then|otherwise|else|with|from|instead|while|though|if)\b)[A-Za-z]{2,}"
)
HEADING = re.compile(r"[\W_]*(?:explanation|reason(?:ing)?|steps?|proof|check|solution|working)[\W_]*$", re.IGNORECASE)
OF_SOMETHING = re.compile(
    r"\b(?:for|in|per|at|after|within|on|with|from|all)(?: (?:all|every|the|each))?[\s(]{0,3}$", re.IGNORECASE
)
REFUTED = re.compile(r"\b(?:wrong|incorrect|false|fails?|not|cannot|excluded|too \w+)\b|n['\u2019]t\b", re.IGNORECASE)
REFUTED_TWICE = re.compile(r"\bnot (?:\w+ )?(?:wrong|incorrect|false|excluded|impossible|bad)\b", re.IGNORECASE)
STATES = re.compile(
    rf"\b(?:answer|result|total|solution|value|it|that|this)(?:['\u2019]s|\W{{0,3}}\b{BE})\W{{0,4}}$", re.IGNORECASE
)
RELATIVE = re.compile(r"\s(?:more|less|fewer|times|percent|of|out of)\b")
TAKES_BACK = re.compile(
    r"\b(?:(?:may|might|could) (?:also |well |still )*(?:be )?(?:wrong|mistaken)"
    r"|(?:that|it|this)(?:['\u2019]s| is| was) (?:wrong|incorrect|not (?:right|correct)|just a guess))\b"
    r"|^\W*(?:wait|no|hmm)\b\W*$",
    re.IGNORECASE,
)
ARTICLE = (
    r"A(?= (?!(?:is|was|and|or|may|might|could|can|would|cannot|as|if|when|seems|looks|too|also|works|fits|fails|has|in"
    r"|for|but|does|gives)\b)[a-z])"
)
"""A letter A that a word follows, and no verb."""
ABBREVIATION = re.compile(r"\b(i)\.\s?(e)\.|\b(e)\.\s?(g)\.|\b(v)(s)\.", re.IGNORECASE)
LIST_MARK = re.compile(r"^[ \t]*[0-9]{1,2}[.)][ \t]+(?=\S)", re.MULTILINE)


def objection(before: str, after: str, find: Find) -> str:
    """Why a reply does not commit to the answer between `before` and `after`; empty if it does."""
    before = LIST_MARK.sub("", before)
    behind = _sentences(LIST_MARK.sub("", ABBREVIATION.sub(r"\1\2\3\4\5\6", after)))
    ahead = WAIT.split(_sentences(before)[-1][-LONGEST_CLAUSE:])[-1]
    tail = behind[0]
    if tail.endswith("?"):
        return "the answer is asked and not stated"
    if why := _denied(ahead):
        return why
    others = [one for one in find(ahead) if not (one.is_same or one.is_worked)]
    if others and OFFER.search(f"{_clause(OPENING.sub('', ahead))} ; {CONDITION.sub(' ', tail)}"):
        return "one of several answers in one sentence"
    return _earlier(before, find) or _later(behind, find)


def is_doubted(text: str) -> bool:
    """Whether words of doubt stand in an answer's own text."""
    return UNSURE.search(text) is not None


def _sentences(text: str) -> list[str]:
    """The sentences with their marks of question; at least one."""
    found, start = [], 0
    for end in SENTENCE_END.finditer(text):
        found.append(text[start : end.start()] + end.group().strip().replace(".", "").replace("!", ""))
        start = end.end()
    return [*found, text[start:]]


def _clause(ahead: str) -> str:
    """The last clause that says something."""
    ends = [0, *(end.end() for end in CLAUSE_END.finditer(ahead))]
    return next((ahead[start:] for start in reversed(ends) if re.search(r"[A-Za-z]", ahead[start:])), ahead)


def _denied(ahead: str) -> str:
    clause = _clause(ahead)
    denials = list(DENIAL.finditer(clause))
    if (denials and not COPULA.search(clause, denials[-1].end())) or DISBELIEF.search(clause):
        return "the answer is denied"
    if FIRST_DOUBT.match(ahead) or DOUBT.search(clause):
        return "the answer is doubted"
    return ""


def _earlier(before: str, find: Find) -> str:
    """Whether an earlier claim gives another answer, and nothing corrects it."""
    claims = list(CLAIM.finditer(before))[-MOST_CLAIMS:]
    for claim, following in zip(claims, [*claims[1:], None], strict=False):
        end = min(following.start() if following else len(before), claim.end() + LONGEST_CLAIM)
        said = before[claim.end() : end].partition("\n")[0]
        first = next(iter(find(said)), None)
        if first is None or first.is_same or not LEAD.fullmatch(said, 0, first.start):
            continue
        between = before[claim.end() + first.end :]
        is_step = claim["mark"] and CONSEQUENCE.search(between) and not DOUBT.search(between)
        if not (is_step or CORRECTION.search(between)):
            return "another answer was claimed before and not taken back"
    return ""


def _later(sentences: list[str], find: Find) -> str:
    """Whether what follows the answer offers another or takes it back."""
    said = [CONDITION.sub(_blank, sentence) for sentence in sentences]
    found = [find(sentence) for sentence in said]
    heading = next((position for position, sentence in enumerate(said) if HEADING.match(sentence)), len(said))
    leads_back = any(one.is_same or one.uses_answer for candidates in found for one in candidates)
    for position, (sentence, candidates) in enumerate(zip(said, found, strict=True)):
        others = [one for one in candidates if not one.is_same]
        if FIRST_DOUBT.match(sentence) and (position < 2 or others):
            return "an alternative behind the answer"
        place = "tail" if position == 0 else "later" if position < heading else "explanation"
        if others and not _explains(sentence, others, place, leads_back=leads_back):
            return "another answer behind the answer"
        if TAKES_BACK.search(sentence) or (not others and position == 0 and DOUBT.search(sentence)):
            return "the answer is taken back, or doubted"
    return ""


def _blank(match: re.Match[str]) -> str:
    return " " * len(match.group())


def _explains(
    sentence: str, others: list[Candidate], place: Literal["tail", "later", "explanation"], *, leads_back: bool
) -> bool:
    """Whether a sentence names other candidates only to explain the answer."""
    if OFFER.search(sentence) or any(_is_stated(sentence, one) for one in others):
        return False
    if place == "explanation" or EXPLAINS.search(sentence, 0, others[0].start):
        return True
    unexplained = [one for one in others if not (one.is_worked and leads_back)]
    if place == "tail":
        return all(
            _is_amount(sentence, one) and OF_SOMETHING.search(sentence[max(0, one.start - LONGEST_LEAD) : one.start])
            for one in unexplained
        )
    if REFUTED.search(sentence) and not REFUTED_TWICE.search(sentence):
        return True
    return not unexplained or (
        _is_amount(sentence, unexplained[0]) and len(re.findall(r"[A-Za-z]+", sentence[: unexplained[0].start])) > 1
    )


def _is_stated(sentence: str, one: Candidate) -> bool:
    is_said = STATES.search(sentence[max(0, one.start - LONGEST_LEAD) : one.start]) is not None and not RELATIVE.match(
        sentence, one.end
    )
    return is_said and not one.is_worked


def _is_amount(sentence: str, one: Candidate) -> bool:
    return AMOUNT.match(sentence, one.end) is not None
