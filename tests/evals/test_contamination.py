"""Training texts against items of suites: no window is missed, wherever it begins, and common words are none."""

from random import Random

import pytest

from burnish.evals.contamination import Index

ITEM = (
    "The harbour of Lisbon was rebuilt between 1887 and 1926 by Hersent, whose cranes still stand on the western quay."
)


def index_of(*texts, suite="s"):
    index = Index()
    for number, text in enumerate(texts):
        index.add(suite, f"{suite}/{number}", [text])
    return index


def kinds(index, text):
    return [(one.item, one.kind) for one in index.overlaps("t", text)]


@pytest.mark.parametrize("first", range(len(ITEM.split()) - 12))
def test_thirteen_words_in_a_row_are_found_wherever_they_begin(first):
    words = [word.upper() for word in ITEM.split()[first : first + 13]]  # in capitals: characters do not match
    assert kinds(index_of(ITEM), "Before. " + ", ".join(words) + " -- after") == [("s/0", "13 words")]
    assert kinds(index_of(ITEM), " ".join(words[:12]) + " something else") == []


@pytest.mark.parametrize("first", range(0, len(ITEM) - 50))
def test_fifty_characters_in_a_row_are_found_wherever_they_begin(first):
    item = "".join(Random(1).choices("abcdefghijk", k=len(ITEM)))  # one word
    assert kinds(index_of(item), "x" * 7 + item[first : first + 50] + "yz") == [("s/0", "50 characters")]
    assert kinds(index_of(item), "x" * 7 + item[first : first + 49] + "yz") == []


def test_a_short_prompt_counts_as_a_whole():
    index = index_of("What is 3 + 4?")
    assert kinds(index, "what is 3 + 4") == [("s/0", "whole prompt")]
    assert kinds(index, "What is 3 + 4? What is 5 + 6?") == []


def test_what_many_items_have_in_common_is_no_overlap_but_what_follows_it_is():
    frame = "Read the following passage with care and answer the question below it in one single word, please: "
    index = index_of(
        *(f"{frame} {subject} built a red house of brick and slate for {subject}" for subject in "abcdefghijklmno")
    )
    assert kinds(index, frame + "quite another question") == []
    own = index_of(*(frame + str(n) for n in range(20)), f"{frame} {ITEM}")
    assert kinds(own, frame + ITEM) == [("s/20", "13 words")]


def test_each_suite_is_reported_once_in_the_order_of_the_index():
    index = index_of(ITEM, ITEM, suite="external")
    index.add("own", "own/0", [ITEM])
    assert [(one.suite, one.item) for one in index.overlaps("t", ITEM)] == [
        ("external", "external/0"),
        ("own", "own/0"),
    ]
    assert index.num_items == {"external": 2, "own": 1}


def test_a_correct_reply_is_a_text_of_its_item():
    index = Index()
    index.add("s", "s/0", ["What is known of Lisbon?", ITEM])
    assert kinds(index, f"Here it is. {ITEM}") == [("s/0", "13 words")]
