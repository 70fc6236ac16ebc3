"""The final number of a reply: what is read, what is refused, and how long it takes."""

import time

import pytest

from burnish.rewards import verifier
from burnish.rewards.final_number import final_number

RIGHT = [
    ("73", "... = 489. The answer is **73**."),
    ("1000", "#### 1{,}000"),
    ("1000", "#### 1 000"),
    ("18", "The answer is 18!"),
    ("18", "So the total for 3 apples is $18."),
    ("18", "The answer is 18 dollars for 3 apples."),
    ("18", "#### 3 + 15 = 18"),
    ("18", "\\boxed{x = 18\\text{ cm}}"),
    ("18", "The answer is 18 because 12 + 6 = 18."),
    ("18", "18 is the answer."),
    ("18", "There are 12 + 6 = 18 in total."),
    ("18", "The answer is:\n\n18"),
    ("18", "**Answer:** 18"),
    ("18", "<answer>18</answer>"),
    ("18", "US$18"),
    ("40", "20*2=<<20*2=40>>40"),
    ("7", "\\boxed{8} is wrong... \\boxed{7}"),
    ("1500", "1.5 \\times 10^3"),
    ("-3", "x = - 3"),
    ("-5", "−5"),
    ("5", "５"),
    ("3.5", "#### 3 1/2"),
    ("3.5", "\\boxed{\\frac{7}{2}}"),
    ("2000000", "2 million"),
    ("18", "#### 18%"),
    ("0.18", "#### 18%"),
    ("1/3", "0.333333"),
    (18, "18kg"),
    (0.5, "½"),
]
WRONG = [
    ("7", "The answer is 7 or 8"),
    ("8", "The answer is 7 or 8"),
    ("7", "The answer is 7 if it rains or otherwise 8"),
    ("9", "\\boxed{7, 8, 9}"),
    ("8", "$x = 7 = 8$"),
    ("7", "$x = 7 = 8$"),
    ("8", "Answers: $1$ $2$ $3$ $4$ $5$ $6$ $7$ $8$"),
    ("5", "between 3 and 5"),
    ("5", "3 – 5"),
    ("14", "2024-01-14"),
    ("3", "1.2.3"),
    ("14", "2^14"),
    ("8", "2**8"),
    ("5", "5x3"),
    ("3", "5x3"),
    ("18", "18th"),
    ("18", "x < 18"),
    ("18", "at least 18"),
    ("18", "18 ± 1"),
    ("2", "2 million"),
    ("50", "18 dollars and 50 cents"),
    ("3", "x = -3"),
    ("17", "I got 17. No, 18."),
    ("18", "#### 18 #### 19"),
    ("100", "1,00"),
    ("1/3", "0.3333"),
    ("1/3", "0.333335"),
    ("0.333", "1/3"),
    ("1", "#### 1/0"),
    ("18", ""),
    ("18", "####"),
    ("18", "\\boxed{18"),
]
HOSTILE = [
    "9",
    "#### 1 ",
    "\\boxed{",
    "1,",
    "1 000",
    "= ",
    "answer is ",
    "1/",
    "-",
    "10^",
    "1.1e",
    "1 or ",
    "*",
    "\ud800",
]


@pytest.mark.parametrize(("truth", "reply"), RIGHT)
def test_a_number_is_read_where_the_reply_gives_it_as_its_answer(truth, reply):
    assert verifier("number").judge(truth, reply).score == 1.0


@pytest.mark.parametrize(("truth", "reply"), WRONG)
def test_what_is_not_one_right_number_scores_nothing(truth, reply):
    assert verifier("number").judge(truth, reply).score == 0.0


@pytest.mark.parametrize("pattern", HOSTILE)
def test_a_megabyte_of_anything_is_judged_within_two_seconds(pattern):
    started = time.process_time()
    assert verifier("number").judge("5", pattern * (1_000_000 // len(pattern))).score == 0.0
    assert time.process_time() - started < 2.0


def test_more_digits_than_the_limit_are_no_number_and_no_crash():
    assert verifier("number").judge("1", "9" * 5000).score == 0.0
    assert verifier("number").judge("9" * 3000, "9" * 3000).score == 1.0
    assert verifier("number").judge("1", "1e999999999").score == 0.0


def test_a_tolerance_is_absolute():
    assert verifier("number", {"tolerance": 0.05}).judge("3.14", "3.1").score == 1.0
    assert verifier("number", {"tolerance": 0.03}).judge("3.14", "3.1").score == 0.0


@pytest.mark.parametrize("truth", ["eighteen", "7 or 8", None, True, [1], "9" * 5000])
def test_a_truth_that_is_no_number_is_refused_at_loading(truth):
    assert "is no number" in verifier("number").fault(truth)


@pytest.mark.parametrize(
    ("reply", "is_one"),
    [
        ("15 - 7 = 8\n25", False),
        ("15 - 7 = 8\n8", True),
        ("15 - 7 = 8\nThat is 2 more than 6.", True),
        ("The answer is 8.\n$9", False),
        ("25 or 15 - 7 = 8", False),
    ],
)
def test_another_number_alone_on_a_later_line_takes_the_answer_back(reply: str, is_one: bool) -> None:
    number = final_number(reply)
    assert (number is not None and number.value == 8) == is_one
