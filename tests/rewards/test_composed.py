"""Normal forms are those of Unicode, and no text makes them slow."""

import time
import unicodedata

import pytest

from burnish.rewards import composed, normalise
from burnish.rewards.end_state import ExpectedFile, judge
from burnish.rewards.strict_json import InvalidJson, parse

PILES = ["a" + unit * 500_000 for unit in ("\u0301\u0316", "\u0f73", "\u0300\uff9e")]
"""The last two have marks that count as none until they are decomposed."""


@pytest.mark.parametrize(
    "text", ["", "plain", "e\u0301", "\u00e9", "\uff21\u00b2", "\uac00", "\u1100\u1161", "q\u0323\u0307" * 9]
)
def test_ordinary_text_is_normalised_as_unicode_says(text):
    assert composed.nfc(text) == unicodedata.normalize("NFC", text)
    assert composed.nfkc(text) == unicodedata.normalize("NFKC", text)


def test_more_marks_in_a_row_than_any_language_has_stay_as_they_are():
    row = "e" + "\u0316\u0301" * 15
    assert composed.nfc(row) == unicodedata.normalize("NFC", row) != row
    assert composed.nfc(row + "\u0301") == row + "\u0301"


def test_every_mark_counts():
    marks = [
        chr(code) for code in range(0x110000) if unicodedata.combining(unicodedata.normalize("NFKD", chr(code))[0])
    ]
    assert [mark for mark in marks if composed.nfc("e" + mark * 31) != "e" + mark * 31] == []


def _read(text: str) -> None:
    with pytest.raises(InvalidJson):
        parse(f'{{"{text}": 1, "{text}": 2}}')


@pytest.mark.parametrize("pile", PILES, ids=["marks", "pairs", "compatible"])
@pytest.mark.parametrize(
    "verify",
    [
        normalise.text,
        _read,
        lambda text: judge({"f": text.encode()}, [ExpectedFile(name="f", content=b"a")]),
    ],
    ids=["text", "json", "end state"],
)
def test_a_megabyte_of_marks_is_judged_within_two_seconds(verify, pile):
    started = time.process_time()
    verify(pile)
    assert time.process_time() - started < 2
