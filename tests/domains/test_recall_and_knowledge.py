"""Facts out of a text, and facts out of the head: one answer is right, all answers at once are not."""

import asyncio

import pytest

from burnish.domains import open_domain


def score(name, options, reply_of):
    domain = open_domain(name, options)
    task = domain.task("eval", 1, 0)
    return asyncio.run(domain.verify(task, reply_of(task), None))


def test_retention_is_the_share_of_asked_numbers():
    half = score("recall", {"num_facts": 4}, lambda task: ", ".join(task.truth["asked"][:2]))
    assert (half.score, half.parts["retained"]) == (0, 0.5)
    assert score("recall", {"num_facts": 4}, lambda task: " and ".join(task.truth["asked"])).score == 1


def test_all_numbers_of_the_text_are_no_answer():
    assert score("recall", {}, lambda task: task.messages[-1].content).score == 0
    assert score("recall", {}, lambda task: f"{task.gold} or 1234").score == 0


def test_a_text_has_as_many_sentences_as_asked_for_and_each_fact_twice_over():
    task = open_domain("recall", {"num_facts": 2, "num_sentences": 30}).task("eval", 1, 0)
    text = task.messages[-1].content
    assert text.partition("\n\n")[0].count(".") == 30 + 4
    assert all(text.count(number) == 1 for number in task.truth["asked"])


@pytest.mark.parametrize(
    ("form", "expected"),
    [("{}", 1), ("The capital is {}.", 1), ("{} or Berlin or Paris or Rome", 0), ("x{}", 0), ("{} " + "word " * 30, 0)],
)
def test_one_answer_in_few_words_is_right(form, expected):
    assert score("knowledge:capitals", {}, lambda task: form.format(task.gold)).score == expected
