"""Bring texts, dates and amounts into the one form in which they are compared.

Decisions: a normaliser answers None where a value cannot be read or can be read in two ways: `03/04/2024`
is no date (day or month first?), while `13/04/2024` and `2024-04-03` are. An amount's last point or comma is its
decimal mark if other than three digits follow or the other mark stands before it; a lone comma before three
digits marks thousands, a lone point decimals (`1,234` is 1234; `1.234` is 1.234). Currency signs and codes go.
Not covered: month names in other languages than English, years of two digits, currency conversion.
"""

import re
from datetime import date
from decimal import Decimal

from burnish.rewards import composed

LONGEST = 1_000

MONTHS: tuple[str, ...] = tuple("jan feb mar apr may jun jul aug sep oct nov dec".split())
MONTH_NAMES = "january february march april may june july august september october november december sept".split()
YEAR_FIRST = re.compile(r"([0-9]{4})([-/.])([0-9]{1,2})\2([0-9]{1,2})(?:[t ][0-9:.+z-]{1,20})?")
YEAR_LAST = re.compile(r"([0-9]{1,2})([-/.])([0-9]{1,2})\2([0-9]{4})")
DAY_NAMED = re.compile(r"([0-9]{1,2})(?:st|nd|rd|th)?[ .-]{1,2}(?:of )?([a-z]{3,9})[ .,-]{1,2}([0-9]{4})")
MONTH_NAMED = re.compile(r"([a-z]{3,9})[ .]{1,2}([0-9]{1,2})(?:st|nd|rd|th)?,? ([0-9]{4})")
CURRENCY = re.compile(r"[$€£¥₹]|\b(?:[A-Za-z]{3}|US|Rs\.?|kr|Fr\.?)(?![A-Za-z])")
AMOUNT = re.compile(
    r"[0-9]{1,3}(?:([., '])[0-9]{3})(?:\1[0-9]{3}){0,6}(?:[.,][0-9]{1,6})?|[0-9]{1,30}(?:[.,][0-9]{1,6})?"
)


def text(value: str) -> str:
    """NFKC, one space for any run of white space, no case."""
    return " ".join(composed.nfkc(value).split()).casefold()


def day(value: str) -> date | None:
    """Read a date; None if it is none or could be two."""
    plain = text(value[:LONGEST])
    if match := YEAR_FIRST.fullmatch(plain):
        return _date(match[1], match[3], match[4])
    if match := YEAR_LAST.fullmatch(plain):
        first, second = int(match[1]), int(match[3])
        if match[2] == "." or first > 12 or first == second:
            return _date(match[4], match[3], match[1])
        return _date(match[4], match[1], match[3]) if second > 12 else None
    if match := DAY_NAMED.fullmatch(plain):
        return _date(match[3], _month(match[2]), match[1])
    if match := MONTH_NAMED.fullmatch(plain):
        return _date(match[3], _month(match[1]), match[2])
    return None


def amount(value: str) -> Decimal | None:
    """Read an amount of money; None if it is none."""
    plain = composed.nfkc(value[:LONGEST]).replace("−", "-").replace("’", "'")
    plain = CURRENCY.sub("", plain).strip()
    is_negative = plain.startswith("-")
    plain = plain.lstrip("+-").strip()
    if not AMOUNT.fullmatch(plain):
        return None
    return (-1 if is_negative else 1) * Decimal(_with_point(plain))


def _with_point(digits: str) -> str:
    last = max(digits.rfind("."), digits.rfind(","))
    mark, head, tail = digits[last], digits[:last], digits[last + 1 :]
    has_other = any(other in head for other in ".,' " if other != mark)
    is_decimal = last >= 0 and mark not in head and (has_other or len(tail) != 3 or mark == ".")
    if not is_decimal:
        return re.sub(r"[., ']", "", digits)
    return f"{re.sub(r'[., ]|' + chr(39), '', head)}.{tail}"


def _month(name: str) -> str:
    is_known = name in MONTHS or name in MONTH_NAMES
    return str(MONTHS.index(name[:3]) + 1) if is_known else "0"


def _date(year: str, month: str, day_of_month: str) -> date | None:
    try:
        return date(int(year), int(month), int(day_of_month))
    except ValueError:
        return None
