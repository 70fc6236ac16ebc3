r"""Numbers as people write them, read exactly: every number of a text, in order.

Read: thousands marks (`1,000`, `1 000`, `1'000`, `1{,}000`), `.5` and `5.`, fractions and mixed numbers
(`1/2`, `3 1/2`, `\frac{1}{2}`), scientific notation (`1.5e3`, `1.5 \times 10^3`), `%`, `hundred` to
`trillion` and `dozen`, `minus 5`, digits of all scripts, the Unicode minus. Currency signs and bold go.

Decisions: values are `Fraction`s. Digits and exponents end at `MOST_DIGITS`: a longer number is there, but has
no value; so has one with a zero below the line, a comparison before it (`x < 5`), glued letters
and digits behind it (`5x3`), or above something as its power (`x^3`). Ordinals (18th), parts of words (x2, B-52) and
powers of a unit (`5 m³`) are no numbers. An arrow is no comparison.
Not covered: number words within a text (`number_words` reads a text of nothing else), decimal commas, Roman numerals.
"""

import re
import unicodedata
from dataclasses import dataclass
from fractions import Fraction

MOST_DIGITS = 4_000

CHARACTERS = str.maketrans(
    {
        **{code: str(unicodedata.decimal(chr(code))) for code in range(0x80, 0x20000) if chr(code).isdecimal()},
        **dict.fromkeys("\u00a0\u2009\u202f\u2007\t\r\n", " "),
        **{"−": "-", "－": "-", "．": ".", "，": ",", "％": "%", "＝": "=", "＋": "+", "⁄": "/", "’": "'"},
        **{"½": " 1/2", "⅓": " 1/3", "⅔": " 2/3", "¼": " 1/4", "¾": " 3/4", "⅕": " 1/5", "⅛": " 1/8"},
        **{power: f"^{digit}" for digit, power in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")},
    }
)
REWRITES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in [
        (r"\{,\}", ","),
        (r"\\[,;!:]|\\left\b|\\right\b", ""),
        (r"\\[dt]?frac ?\{([+-]?[0-9]{1,99})\} ?\{([0-9]{1,99})\}", r" \1/\2"),
        (r"\\[dt]?frac ?([0-9])([0-9])(?![0-9])", r" \1/\2"),
        (r"\\(?:text|mathrm|mathbf|textbf)\b", " "),
        (r"\\(?:times|cdot)\b|[×·]", "*"),
        (r"(?<=[0-9]) ?[*xX] ?10 ?(?:\^|\*\*) ?\{?([+-]?[0-9]{1,6})\}?", r"e\1"),
        (r"(?<![0-9.,])10 ?\^ ?\{?([+-]?[0-9]{1,6})\}?", r"1e\1"),
        (r"\*\*|__|[`~{}]", " "),
        (r"--?>|^ *=>|\\(?:[Ll]ong)?[rR]ightarrow\b|\\to\b|[→⇒⟹➜]", " → "),
        (r"\\(?=[$%()\[\]])", ""),
        (r"(?<![0-9])(?:USD|EUR|GBP|INR|US|CA|AU)?[$€£¥₹] ?(?=[+-]?[0-9.])|\b(?:USD|EUR|GBP|INR) ?(?=[0-9])", ""),
        (r"[$€£¥₹]", " "),
        (r"\b(?:minus|negative) (?=[0-9])", "-"),
        (r"= ?- (?=[0-9])", "= -"),
        (r"(?<=[0-9])-(?=(?:hundred|thousand|million|billion|trillion|dozen)\b)", " "),
    ]
)
NUMBER = re.compile(
    r"(?P<sign>[+-])?(?:"
    r"(?:(?P<whole>[0-9]{1,9}) )?(?P<above>[0-9]{1,99}) ?/ ?(?P<below>[0-9]{1,99})(?![0-9])"
    r"|(?P<digits>(?:[0-9]{1,3}(?:[, '][0-9]{3})++(?![0-9])|[0-9]++)(?:\.[0-9]*+)?|\.[0-9]++)"
    r"(?P<exponent>[eE][+-]?[0-9]++(?![A-Za-z]))?"
    r")(?P<percent> ?%)?(?: (?P<scale>hundred|thousand|million|billion|trillion|dozen)s?\b)?"
)
SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12, "dozen": 12}
PART_OF_WORD = re.compile(r"[A-Za-z_]-?$")
POWER = re.compile(r"\^ ?-?$")
POWER_OF_UNIT = re.compile(
    r"(?<![A-Za-z])(?:[kcdm]?m|in|ft|yd|mi|inch(?:es)?|foot|feet|yards?|miles?|(?:kilo|centi|deci|milli)?met(?:er|re)s?)"
    r"\^ ?$"
)
ORDINAL = re.compile(r"(?:st|nd|rd|th)\b|_")
COMPARED = re.compile(
    r"(?:[<>!]=|=[<>]|[<>≤≥±≠]|\\(?:le|ge|lt|gt|leq|geq|pm|neq?)"
    r"|\b(?:than|least|most|almost|nearly|(?:up|close) to)) ?$"
)
GLUED = re.compile(r"[A-Za-z][0-9]|\+(?![0-9 ])|\+$| ?±| ?\\pm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """One number of a text: where it stands, and its value if it has one."""

    start: int
    end: int
    text: str
    value: Fraction | None
    num_decimals: int = 0
    is_percent: bool = False
    unit: str = ""
    """A known unit behind it, where another value says the same in another unit."""
    converted: Fraction | None = None
    """That other value."""

    @property
    def said(self) -> str:
        """The number with its unit."""
        return f"{self.text} {self.unit}".strip()


def plain(text: str) -> str:
    """Rewrite currency, bold, LaTeX and Unicode forms so that `numbers` can read them."""
    text = text.translate(CHARACTERS)
    for pattern, replacement in REWRITES:
        text = pattern.sub(replacement, text)
    return text


def numbers(text: str) -> list[Number]:
    """Find the numbers of a text that `plain` rewrote."""
    found: list[Number] = []
    for match in NUMBER.finditer(text):
        before = text[max(0, match.start() - 16) : match.start()]
        if PART_OF_WORD.search(before) or POWER_OF_UNIT.search(before) or ORDINAL.match(text, match.end()):
            continue
        has_value = not (COMPARED.search(before) or POWER.search(before) or GLUED.match(text, match.end()))
        found.append(_read(match, has_value))
    return found


def single(text: str) -> Number | None:
    """Read a text that is one number and nothing else (a truth); None if it is not."""
    rewritten = plain(text).strip()
    found = numbers(rewritten)
    if len(found) == 1 and found[0].value is not None and len(rewritten) == found[0].end - found[0].start:
        return found[0]
    return None


def _read(match: re.Match[str], has_value: bool) -> Number:
    digits = match["digits"] or ""
    return Number(
        start=match.start(),
        end=match.end(),
        text=match.group(),
        value=_value(match) if has_value else None,
        num_decimals=len(digits.partition(".")[2]),
        is_percent=match["percent"] is not None,
    )


def _value(match: re.Match[str]) -> Fraction | None:
    magnitude = _fraction(match) if match["below"] else _decimal(match)
    if magnitude is None:
        return None
    sign = -1 if match["sign"] == "-" else 1
    return sign * magnitude * SCALES.get(match["scale"] or "", 1)


def _fraction(match: re.Match[str]) -> Fraction | None:
    above, below = int(match["above"]), int(match["below"])
    if below == 0 or (match["whole"] and above >= below):
        return None
    return int(match["whole"] or 0) + Fraction(above, below)


def _decimal(match: re.Match[str]) -> Fraction | None:
    digits = re.sub(r"[, ']", "", match["digits"])
    exponent = match["exponent"] or "e0"
    if len(digits) > MOST_DIGITS or len(exponent) > 6 or abs(int(exponent[1:])) > MOST_DIGITS:
        return None
    return Fraction(digits.rstrip(".") + exponent)
