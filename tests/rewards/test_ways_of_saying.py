"""Ways in which people say one answer are read, and their neighbours that say two, or another, are not paid."""

import pytest

from burnish.rewards.choices import chosen
from burnish.rewards.final_number import final_number, is_same_number
from burnish.rewards.math.judging import decide
from burnish.rewards.numbers import single

MATH_RIGHT = [
    ("$5", "5 dollars"),
    ("$5", "5"),
    ("$5$", "€5"),
    ("€5", "5 euros"),
    ("12:30 PM", "The meeting starts at 12:30 p.m."),
    ("12:30 PM", r"\boxed{12{:}30\text{ PM}}"),
    ("21", "The answer is twenty-one."),
    ("three hundred", "300"),
    ("5", "-> 5"),
    ("5", "=> 5"),
    ("5", r"\Rightarrow 5"),
    ("5", "The volume is 5 m³."),
]
MATH_WRONG = [
    ("$5", "€5"),
    ("$5", "The answer is €5."),
    ("£5", "$5"),
    ("€5", "$5.00"),
    ("12:30 PM", "12:30 AM"),
    ("12:30 PM", "It starts at 12:30 PM or 1:30 PM"),
    ("12:30 PM", "It does not start at 12:30 PM."),
    ("12:30 PM", "Is it at 12:30 PM?"),
    ("21", "twenty or twenty-one"),
    ("5", "not five"),
    ("-5", "-> 5"),
    ("5", "4 -> 5"),
    ("3", "The volume is 5 m³."),
    ("3", "between 3 and 3"),
]
NUMBER_RIGHT = [
    ("5", "-> 5"),
    ("5", "The answer is five."),
    ("18", r"\boxed{eighteen}"),
    ("5", "The volume is 5 m³."),
    ("5", "5 cm^2"),
    ("5", "x³ = 5"),
]
NUMBER_WRONG = [
    ("3", "x^3"),
    ("3", "m³"),
    ("3", "5 m³"),
    ("5", "5 x³"),
    ("5", "5x³"),
    ("8", "2³"),
    ("5", "4 -> 5"),
    ("-5", "-> 5"),
    ("3", "between 3 and 3"),
    ("3", "It is from 3 to 3."),
    ("5", "five or six"),
    ("5", "five, six"),
    ("5", "not five"),
    ("1", "This one is hard."),
]
CHOICES = [
    ("option b", "B"),
    ("Choice c.", "C"),
    ("The best option is B.", "B"),
    ("The correct choice is **C**", "C"),
    ("B is correct", "B"),
    ("(B) is the correct answer.", "B"),
    ("Option B is right.", "B"),
    ("the answer is b.", "B"),
    ("Answer: d", "D"),
    ("-> B", "B"),
    ("The best option is B or C.", None),
    ("The best option is not B.", None),
    ("The best option is C, not B.", None),
    ("The best option is a car", None),
    ("B is not correct", None),
    ("B is correct? No, A.", None),
    ("B is correct. But A too.", None),
    ("A is correct and B is correct", None),
    ("Is B correct?", None),
    ("A is a good choice", None),
    ("option b or c", None),
    ("-> A -> B", None),
]


@pytest.mark.parametrize(("truth", "reply"), MATH_RIGHT)
def test_math_pays_what_says_the_truth(truth, reply):
    assert decide(truth, reply).outcome == "equal"


@pytest.mark.parametrize(("truth", "reply"), MATH_WRONG)
def test_math_pays_nothing_else(truth, reply):
    assert decide(truth, reply).outcome == "different"


@pytest.mark.parametrize(("truth", "reply"), NUMBER_RIGHT)
def test_number_pays_what_says_the_truth(truth, reply):
    answer = final_number(reply)
    assert answer is not None and is_same_number(single(truth), answer)


@pytest.mark.parametrize(("truth", "reply"), NUMBER_WRONG)
def test_number_pays_nothing_else(truth, reply):
    answer = final_number(reply)
    assert answer is None or not is_same_number(single(truth), answer)


@pytest.mark.parametrize(("reply", "label"), CHOICES)
def test_a_choice_is_read_where_one_is_said(reply, label):
    assert chosen(reply, "ABCD") == label
