r"""The words by which a reply denies, doubts, offers, corrects and explains; what they mean is `commitment`'s matter.

Decisions: English alone. A phrase is matched in any case and between ends of words; `words` joins phrases.
"""

import re

NOT = r"(?:\bnot|\bcannot|n['\u2019]t)"
BE = r"(?:is|are|was|were|be|been|equals?|would|will|should|must)"
AT_ONCE = r"[\s*$)}]{0,5}"
"""What may stand between an answer and the words that belong to it."""


def words(phrases: str) -> str:
    """A pattern of phrases that `|` separates, each between ends of words."""
    return rf"\b(?:{phrases})\b"


def _compiled(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


CLAIM = _compiled(
    r"(?P<mark>\\(?:boxed|fbox)\b|####|<answer>)",
    rf"\b(?:answers?|solution)\b(?:\W{{0,4}}\b{BE}\b|[\W_]{{0,3}}[:=]){{1,3}}",
)
"""What says that an answer follows."""
LEAD = _compiled(rf"(?:[\W_]|\b(?:{BE}|option|choice|text\w*|math\w*|simply|just|exactly|therefore|the|to)\b){{0,30}}")
"""What may stand between a claim and its answer."""
CORRECTION = _compiled(
    r"\b(?:wait|no[,.:;!]|no wait|nope|wrong|incorrect|corrections?|corrected|mistaken?|sorry|actually|oops"
    r"|scratch that)(?![A-Za-z])"
)
CONSEQUENCE = _compiled(words("then|so|thus|hence|therefore|now|next|finally|gives|giving|yields?"))
WAIT = _compiled(words("wait"))
CLAUSE_END = _compiled(r"[,;:](?![0-9])|[\u2014(]", words("so|thus|hence|therefore|then|and|because|since"))
COPULA = _compiled(words("is|are|was|were|equals?|gives?|makes?|leaves?"), "=")

DENIAL = _compiled(
    words(r"not|never|neither|nor|no|cannot|hardly|without|except|unlike|excluding|than|but(?=\W*$)"), r"n['\u2019]t\b"
)
"""What denies an answer behind it, unless a copula stands between."""
DISBELIEF = _compiled(
    rf"(?:{NOT}|\bnever|\bhardly|\bnobody|\bno one)\s(?:\w+\s)?"
    + words(
        "think|believe|say|claim|agree|suppose|mean|expect|true|correct|right|sure|certain|clear|the case|possible"
    ),
    words(r"un(?:sure|certain|likely|true)|impossible|wrong|incorrect|false|refuse|(?<!no )(?<!without )doubt\w*")
    + r"(?!\W*$)",
)
DENIES = _compiled(words("not|never|wrong|incorrect|false"), r"n['\u2019]t\b")
DENIED_BEHIND = _compiled(
    rf"{AT_ONCE}(?:is|was|would be)(?: \w+)? " + words("wrong|incorrect|false|impossible"),
    rf"{AT_ONCE}(?:is|was|can|could|must|does|did)(?:n['\u2019]t| ?not)\b",
)
TAKES_BACK = _compiled(
    words("(?:may|might|could) (?:also |well |still )*(?:be )?(?:wrong|mistaken)"),
    r"\b(?:that|it|this)(?:['\u2019]s| is| was) (?:wrong|incorrect|not (?:right|correct)|just a guess)\b",
    rf"{NOT}(?: \w+)? (?:sure|certain)\b",
    r"\bunsure\b",
    r"^\W*(?:wait|no|hmm)\b\W*$",
)
"""What takes an answer back in a later sentence."""

UNSURE = _compiled(
    words("maybe|perhaps|possibly|probably|presumably|supposedly|unless|alternatively|guess|might"),
    r"\blikely(?= (?:that|to be|the answer|it)\b|\W*$)",
    words(r"(?:may|could|can)(?: (?:also|well|just|even|\w+ly))* (?:be|equal|have been)"),
    rf"{NOT}(?: \w+)? (?:sure|certain)\b",
    words("unsure|uncertain"),
)
DOUBT = _compiled(UNSURE.pattern, words("or|otherwise|else|either(?! way| case)"))
FIRST_DOUBT = _compiled(
    r"[\W_]*"
    + words(
        "or(?!,? (?:equivalently|in other words|simply))|else|alternatively|otherwise|maybe|perhaps|possibly|probably"
    )
)
ASKS = _compiled(r"\W*" + words("(?:could|might|may|can|would|is) (?:it|this|that|the answer)"))

OFFER = _compiled(
    DOUBT.pattern,
    words(
        "if|when|whenever|also|nor|could|possible|alternatives?|another|others?|some|instead|both|as well|depend\\w*"
    ),
    r"\b(?-i:may)\b",  # and not the month
    words("versus|vs|in case|on second thought|then again|actually|wait"),
    r"\btoo\W*$",
)
"""What no explanation says: that a candidate beside the answer may be one too."""
WHEN = _compiled(words("when|whenever"))
OPENING = _compiled(r"\A\s*(?:if|when)\b")
CONDITION = _compiled(
    r"\b(?:if|when|where|for|with|at|let|given|since)\s[$\\(]{0,3}[A-Za-z](?:_\w)?\s?"
    r"(?:=|[<>]=?|[≤≥≠]|\\(?:le|ge|ne|lt|gt)q?\b)\s?-?[0-9./]{1,20}(?:\\\)|\$)?"
)
EXPLAINS = _compiled(
    words(
        r"because|since|(?<!well )as(?! (?:well|is|are|was|does|do)\b)|given|due to|reason(?:ing)?|explanation"
        r"|check(?:ing)?|proof"
    ),
    words(r"verif\w+|steps?|by \w+ing|obtained|that is|where we used"),
)
HEADING = _compiled(r"[\W_]*(?:explanation|reason(?:ing)?|steps?|proof|check|solution|working)[\W_]*$")
COLON = _compiled(rf"{AT_ONCE}:\s")
STATES = _compiled(rf"\b(?:answer|result|total|solution|value|it|that|this)(?:['\u2019]s|\W{{0,3}}\b{BE})\W{{0,4}}$")
RELATIVE = _compiled(r"\s" + words("more|less|fewer|times|percent|of|out of"))
REFUTED = _compiled(words(r"wrong|incorrect|false|fails?|not|cannot|excluded|too \w+"), r"n['\u2019]t\b")
REFUTED_TWICE = _compiled(
    rf"{NOT}(?: be)?(?: \w+)? " + words("wrong|incorrect|false|excluded|impossible|bad|ruled out|dismissed")
)

OF_SOMETHING = _compiled(
    r"\b(?:for|in|per|at|after|within|on|with|from|all|out of)(?: (?:all|every|the|each))?[\s(]{0,3}$"
)
PHRASE = re.compile(r"[\s*]{1,3}([A-Za-z]+)(?: ([a-z]+))?(?: ([a-z]+))?")
NO_PHRASE = _compiled(
    "is|are|was|were|be|can|could|may|might|would|will|do|does|did|has|have|and|or|but|if|when|in|of|to|as|for|the|that"
)
THINGS = re.compile(
    r"(?!(?:is|was|has|does|works|fits|seems|solves|satisfies|holds|makes|gives|remains|matches|passes|counts|follows"
    r"|applies|plus|minus|versus|perhaps|unless|always|as|this|its)$)[a-z]+[^s]s|people|children|men|women"
)
"""What is counted: a plural, and no verb."""
ARTICLE = (
    r"A(?= (?!(?:is|was|and|or|may|might|could|can|would|cannot|as|if|when|seems|looks|too|also|works|fits|fails|has|in"
    r"|for|but|does|gives)\b)[a-z])"
)
"""A letter A that a word follows, and no verb: an article."""
ABBREVIATION = _compiled(r"\b(i)\.\s?(e)\.|\b(e)\.\s?(g)\.|\b(v)(s)\.")
LIST_MARK = re.compile(r"^[ \t]*[0-9]{1,2}[.)][ \t]+(?=\S)", re.MULTILINE)
