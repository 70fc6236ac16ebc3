"""What edit tools do to a text, and which lines of the original a change touches."""

import pytest

from burnish.domains.terminal.edits import Refused, inserted, replaced, touched
from burnish.domains.terminal.observations import cut, page, plain


@pytest.mark.parametrize(
    ("text", "old", "new", "result"),
    [
        ("a\nb\nc\n", "b", "x", "a\nx\nc\n"),
        ("x = 1\nx = 10\n", "x = 1", "y = 1", "y = 1\nx = 10\n"),  # of two places, the one that is a whole line
        ("a\nb\nc\n", "b", "", "a\nc\n"),  # a whole line goes with its newline
        ("abc\n", "b", "", "ac\n"),
        ("a\nb\nc\n", "b\n", "", "a\nc\n"),
    ],
)
def test_the_one_place_is_replaced(text, old, new, result):
    assert replaced(text, old, new) == result


@pytest.mark.parametrize(
    ("text", "old", "complaint"),
    [
        ("a\n", "", "empty"),
        ("a a\n", "a", "several times, in lines 1, 1"),
        ("  a\n", "\ta", "line 1 differs only in white"),
    ],
)
def test_a_replacement_that_names_no_single_place_is_refused(text, old, complaint):
    with pytest.raises(Refused, match=complaint):
        replaced(text, old, "x")


def test_lines_are_inserted_after_a_line():
    assert [inserted("a\nb", line, "x") for line in (0, 1, 2)] == ["x\na\nb", "a\nx\nb", "a\nb\nx\n"]


ORIGINAL = "".join(f"{n}\n" for n in range(1, 11))


def test_lines_of_later_edits_are_those_of_the_original():
    """Two lines are put in at the top; then the original's line 8, now the tenth, changes."""
    longer = "x\ny\n" + ORIGINAL
    assert touched(ORIGINAL, longer, ORIGINAL) == (1, 1)
    assert touched(longer, longer.replace("8\n", "eight\n"), ORIGINAL) == (8, 8)
    assert touched(ORIGINAL, ORIGINAL.replace("3\n4\n", ""), ORIGINAL) == (3, 4)
    assert touched(None, ORIGINAL, None) == (0, 0)


def test_outputs_are_cleaned_and_cut_in_the_middle():
    assert plain("\x1b[31mred\x1b[0m\r\nü\ud800\x00\x07") == "red\nü\ufffd"
    long = "".join(f"line {n}\n" for n in range(1000))
    shown = cut(long, 200)
    assert shown.startswith("line 0\n") and shown.endswith("line 999\n") and len(shown) < 300
    start = int(shown.partition("page ")[2].split()[0])
    assert page(long, start, 100).startswith(long[start : start + 100])
    assert page("abc", 9, 10) == "[the output has 3 characters]"
