"""Rows of well-known benchmarks from a user's file: what is asked, what is right, and where a file is at fault."""

import asyncio
import json

import pytest

from burnish.core.errors import ConfigError
from burnish.domains import rows

GSM8K = {"question": "2 boxes of 600 pens?", "answer": "2 * 600 = <<2*600=1200>>1200\n#### 1,200"}
MATH = {"problem": "Halve $x$.", "level": "Level 1", "solution": r"So \boxed{\frac{x}{2}}."}
MBPP = {
    "text": "Write a function to add.",
    "code": "def add(a, b):\n    return a + b",
    "test_list": ["assert add(1, 2) == 3", "assert add(-1, 1) == 0"],
}
IFEVAL = {
    "key": 1,
    "prompt": "Write.",
    "instruction_id_list": ["punctuation:no_comma", "startend:quotation"],
    "kwargs": [{}, {"x": None}],
}
RULER = {"index": 0, "input": "Long text. What are the numbers?", "outputs": ["4817", "2203"], "length": 99}
CHOICE = {"question": "Which?", "choices": ["one", "two", "three"], "answer": 1}


def opened(tmp_path, form, *lines, **options):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return rows.load(str(path), {"format": form, **options})


def verdict(domain, reply, box=None):
    return asyncio.run(domain.verify(domain.task("eval", 1, 0), reply, box))


@pytest.mark.parametrize(
    ("form", "row", "right", "wrong"),
    [
        ("gsm8k", GSM8K, "It is 2 * 600.\nAnswer: 1200", "Answer: 1300"),
        ("math", MATH, r"\boxed{0.5x}", r"\boxed{2x}"),
        ("ifeval", IFEVAL, '"One and two."', "One and two."),
        ("ruler", RULER, "They are 4817 and 2203.", "It is 4817."),
        ("choice", CHOICE, "B", "A"),
    ],
)
def test_a_row_is_asked_and_judged(tmp_path, form, row, right, wrong):
    domain = opened(tmp_path, form, row)
    assert [verdict(domain, reply).score for reply in (right, wrong, "")] == [1, 0, 0]
    assert not domain.executes_code
    gold = domain.task("eval", 1, 0).gold
    assert gold is None or verdict(domain, gold).score == 1


def test_a_function_is_judged_by_its_asserts_in_the_sandbox(tmp_path, box):
    domain = opened(tmp_path, "mbpp", MBPP)
    assert domain.executes_code
    task = domain.task("eval", 1, 0)
    assert "assert add(1, 2) == 3" in task.messages[0].content
    for reply, expected in ((task.gold, 1), ("```python\ndef add(a, b):\n    return 3\n```", 0), ("add", 0)):
        assert asyncio.run(domain.verify(task, reply, box)).score == expected


def test_parts_say_how_much_was_retained_and_followed(tmp_path):
    assert verdict(opened(tmp_path, "ruler", RULER), "It is 4817.").parts == {"retained": 0.5}
    assert verdict(opened(tmp_path, "ifeval", IFEVAL), "One and two.").parts == {"followed": 0.5}


def test_a_reply_as_long_as_a_text_has_found_nothing(tmp_path):
    assert verdict(opened(tmp_path, "ruler", RULER), "4817 2203 " + "and more " * 60).score == 0


@pytest.mark.parametrize(
    ("form", "row", "message"),
    [
        ("gsm8k", {"question": "q", "answer": "7"}, "rows.jsonl:1: the answer has no ####"),
        ("math", {"problem": "p", "solution": "none"}, "rows.jsonl:1: the solution has no"),
        ("mbpp", {**MBPP, "test_list": []}, "rows.jsonl:1: test_list names no function"),
        ("ifeval", {**IFEVAL, "kwargs": []}, "2 instructions and 0 kwargs"),
        (
            "ifeval",
            {**IFEVAL, "instruction_id_list": ["a:b", "a:b"]},
            "no rule for instruction 'a:b'; .*leave_out_unknown",
        ),
        ("ruler", {"input": "i", "outputs": []}, "rows.jsonl:1: 'outputs' is empty"),
        ("choice", {**CHOICE, "answer": 3}, "rows.jsonl:1: answer 3 names none of 3 choices"),
        ("choice", {**CHOICE, "question": 3}, "rows.jsonl:1: 'question' is int, expected a text"),
        ("other", {}, "no format 'other'; there are: gsm8k"),
    ],
)
def test_a_fault_is_one_message_with_its_line(tmp_path, form, row, message):
    with pytest.raises(ConfigError, match=message):
        opened(tmp_path, form, row)


def test_instructions_without_a_rule_can_be_left_out(tmp_path):
    unknown = {**IFEVAL, "instruction_id_list": ["a:b", "a:b"]}
    assert opened(tmp_path, "ifeval", IFEVAL, unknown, leave_out_unknown=True).size("eval") == 1


def test_letters_name_choices_too(tmp_path):
    assert verdict(opened(tmp_path, "choice", {**CHOICE, "answer": "C"}), "C").score == 1
