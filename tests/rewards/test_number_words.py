"""Number words are read as people say them, and nothing else is."""

import pytest

from burnish.rewards import number_words


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ("zero", 0),
        ("five", 5),
        ("Fourteen.", 14),
        ("twenty-one", 21),
        ("twenty one", 21),
        ("ninety", 90),
        ("three hundred", 300),
        ("three hundred and five", 305),
        ("nine hundred ninety-nine", 999),
        ("two thousand", 2000),
        ("two thousand and one", 2001),
        ("twelve thousand three hundred forty-five", 12_345),
        ("one million, two hundred thousand", 1_200_000),
        ("six billion", 6 * 10**9),
        ("minus two", -2),
        ("negative forty", -40),
    ],
)
def test_a_number_in_words_is_read(said, value):
    assert number_words.read(said) == value


@pytest.mark.parametrize(
    "said",
    "|and five|five or six|five six|twenty eleven|hundred|thousand|five five hundred|half a dozen|five apples|no five|5"
    "|seventh|fifty-zero|zero five|two thousand thousand|three thousand two million|minus|minus five minus"
    "|fivesix".split("|"),
)
def test_what_says_no_number_is_none(said):
    assert number_words.read(said) is None
