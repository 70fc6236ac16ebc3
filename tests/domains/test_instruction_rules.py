"""Checkable instructions: what follows each, and what only nearly does."""

import pytest

from burnish.domains.instruction_rules import CHECKS, follows

CASES = [
    ("punctuation:no_comma", {}, "One two three.", "One, two."),
    ("keywords:existence", {"keywords": ["river", "old town"]}, "The River by the old town.", "Riverside, old towns."),
    ("keywords:forbidden_words", {"forbidden_words": ["never"]}, "Nevertheless.", "I never do."),
    ("keywords:frequency", {"keyword": "tea", "relation": "at least", "frequency": 2}, "Tea or tea?", "Tea. Team."),
    ("keywords:frequency", {"keyword": "tea", "relation": "less than", "frequency": 2}, "Tea.", "Tea or tea?"),
    (
        "keywords:letter_frequency",
        {"letter": "q", "let_relation": "at least", "let_frequency": 2},
        "Quiz, quay",
        "Quiz",
    ),
    ("length_constraints:number_words", {"num_words": 3, "relation": "less than"}, "Two words.", "These are three."),
    ("length_constraints:number_sentences", {"num_sentences": 2, "relation": "at least"}, "One. Two!", "3.14 is one."),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "One.\n***\nTwo.", "One.\n\nTwo."),
    ("detectable_format:json_format", {}, '```json\n{"a": 1}\n```', "{a: 1}"),
    ("detectable_format:title", {}, "<<Tea>>\nIt is hot.", "<Tea>\nIt is hot."),
    ("detectable_format:number_bullet_lists", {"num_bullets": 2}, "* one\n* two", "* one\n* two\n* three"),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 2}, "*a b* and **c**", "*a b* and c"),
    ("detectable_format:constrained_response", {}, "My answer is no.", "No."),
    ("detectable_content:number_placeholders", {"num_placeholders": 2}, "[name] lives in [city]", "[name] lives"),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, "Bye.\nP.S. Call me.", "Bye."),
    ("change_case:english_lowercase", {}, "all small 7", "Not all small"),
    ("change_case:english_capital", {}, "ALL LARGE 7", "ALL Large"),
    (
        "change_case:capital_word_frequency",
        {"capital_relation": "at least", "capital_frequency": 2},
        "AN OLD tea",
        "OLD tea",
    ),
    ("combination:two_responses", {}, "One.\n******\nTwo.", "One.\n******\nOne."),
    ("combination:repeat_prompt", {"prompt_to_repeat": "Say hi."}, "Say hi. Hi!", "Hi!"),
    ("startend:end_checker", {"end_phrase": "That is all."}, "Tea. That is all.", "That is all. Tea."),
    ("startend:quotation", {}, '"Tea."', 'Tea: "hot".'),
]


@pytest.mark.parametrize(("rule", "arguments", "good", "bad"), CASES)
def test_a_rule_tells_what_follows_it_from_what_nearly_does(rule, arguments, good, bad):
    assert follows(rule, arguments, good)
    assert not follows(rule, arguments, bad)
    assert not follows(rule, arguments, " \n ")


def test_every_rule_has_a_case():
    assert {rule for rule, *_ in CASES} == set(CHECKS)
