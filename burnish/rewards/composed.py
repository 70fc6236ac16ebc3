"""Unicode normal forms in time that grows with the length of the text alone.

Putting combining marks into their order takes time that grows with the square of how many stand in a row, so that a
reply of 40,000 marks costs seconds and one of a megabyte hours. No text of any language has more than `MOST_MARKS` in a
row (Unicode Standard Annex 15, section 13, the Stream-Safe Text Format); one that has stays as it is.
"""

import functools
import re
import unicodedata
from typing import Final

MOST_MARKS: Final = 30
FIRST_MARK: Final = 0x300
END_OF_MARKS: Final = 0x1F000


def nfc(text: str) -> str:
    """Compose: one code point where one will do."""
    return text if _has_too_many_marks(text) else unicodedata.normalize("NFC", text)


def nfkc(text: str) -> str:
    """Compose, and write compatible forms (full-width, raised, circled) as plain ones."""
    return text if _has_too_many_marks(text) else unicodedata.normalize("NFKC", text)


def _has_too_many_marks(text: str) -> bool:
    return not text.isascii() and _too_many_marks().search(text) is not None


@functools.cache
def _too_many_marks() -> re.Pattern[str]:
    marks = [code for code in range(FIRST_MARK, END_OF_MARKS) if _has_order(chr(code))]
    ranges: list[list[int]] = []
    for code in marks:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    inside = "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)
    return re.compile(f"[{inside}]{{{MOST_MARKS + 1}}}")


def _has_order(char: str) -> bool:
    """Whether it is put into an order with its neighbours, at least once it is written as what it is composed of."""
    return bool(unicodedata.combining(unicodedata.normalize("NFKD", char)[0]))
