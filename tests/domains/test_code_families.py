"""The families of `code` mean what they say, and their problems are many."""

import json
from random import Random

import pytest

from burnish.domains import code
from burnish.domains.code_families import draw, run_gold

SEEN, HELD_OUT = code.EVAL_FAMILIES["seen"], code.EVAL_FAMILIES["held_out"]


@pytest.mark.parametrize("family", SEEN + HELD_OUT, ids=lambda family: family.name)
def test_each_family_has_many_problems_with_telling_inputs(family) -> None:
    problems = [draw(family, Random(seed)) for seed in range(20)]
    assert len({code.prompt(problem) for problem in problems}) >= 19
    for problem in problems:
        shown, hidden = json.dumps(problem.example), [json.dumps(call) for call in problem.calls]
        assert len(hidden) == 8 and shown not in hidden and len(set(hidden)) == 8
        assert max(problem.expected.count(value) for value in problem.expected) <= 4


@pytest.mark.parametrize("family", SEEN + HELD_OUT, ids=lambda family: family.name)
def test_each_gold_is_short_and_gives_the_shown_example(family) -> None:
    problem = draw(family, Random(5))
    assert len(problem.solution.splitlines()) <= 7
    assert run_gold(problem.solution, problem.function, [problem.example]) == [problem.example_value]
    assert "{" not in code.prompt(problem) + problem.solution


MEANINGS = [
    ("sum_parity", {"bit": 1}, [[1, 2, 3, -3]], 1),
    ("count_compare", {"sign": ">=", "k": 5}, [[4, 5, 6]], 2),
    ("keep_compare", {"sign": "<", "k": 5}, [[4, 5, 6]], [4]),
    ("scale_each", {"sign": "-", "k": 2}, [[4, 5]], [2, 3]),
    ("keep_multiples", {"k": 3}, [[3, 4, -6, 0]], [3, -6, 0]),
    ("count_letter", {"c": "a"}, ["banana tea"], 4),
    ("keep_long_words", {"sign": ">", "k": 3}, [["ant", "bread"]], ["bread"]),
    ("join_words", {"sep": "-"}, [["a", "b"]], "a-b"),
    ("text_case", {"way": "title"}, ["a cat"], "A Cat"),
    ("first_items", {"slice": "-2:"}, [[1, 2, 3]], [2, 3]),
    ("reverse_list", {}, [["a", "b"]], ["b", "a"]),
    ("extreme", {"call": "min", "k": -1}, [[]], -1),
    ("repeat_text", {"k": 2}, ["ab"], "abab"),
    ("linear", {"k": 3, "sign": "-", "m": 1}, [4], 11),
    ("is_multiple", {"k": 3}, [9], True),
    ("first_letters", {}, [["ant", "bee"]], ["a", "b"]),
    ("word_lengths", {}, [["ant", "bread"]], [3, 5]),
    ("replace_letter", {"c": "a", "d": "u"}, ["banana"], "bununu"),
    ("count_up", {"k": 1}, [3], [1, 2, 3]),
    ("limit", {"call": "max", "k": 10}, [4], 10),
    ("count_words", {}, ["a cat"], 2),
    ("sort_list", {"extra": ", reverse=True"}, [[1, 3, 2]], [3, 2, 1]),
    ("starts_with", {"c": "a"}, [["ant", "tea"]], ["ant"]),
    ("contains", {"k": 2}, [[1, 2]], True),
    ("end_sum", {"sign": "*"}, [[2, 9, 4]], 8),
    ("distance", {}, [3, 9], 6),
    ("remove_value", {"k": 2}, [[2, 1, 2]], [1]),
    ("is_palindrome", {}, ["abba"], True),
    ("sum_of_squares", {"exponent": 3}, [[1, 2]], 9),
    ("every_nth", {"k": 2}, [[1, 2, 3]], [1, 3]),
    ("running_total", {"name": "product", "start": 1, "sign": "*"}, [[2, 3, 4]], [2, 6, 24]),
    ("count_equal", {"k": 2}, [[2, 1, 2]], 2),
    ("negate_each", {}, [[1, -2]], [-1, 2]),
    ("sum_list", {}, [[1, -2, 4]], 3),
    ("multiply_pair", {}, [3, -2], -6),
    ("pick_of_two", {"call": "max"}, [3, 9], 9),
    ("power_number", {"exponent": 3}, [-2], -8),
    ("count_items", {}, [[4, 4]], 2),
    ("count_sign", {"test": "<"}, [[-1, 0, 2]], 1),
    ("keep_sign", {"test": ">"}, [[-1, 0, 2]], [2]),
    ("sum_some", {"slice": "-2:"}, [[5, 1, 2]], 3),
    ("remainder", {"k": 4}, [-3], 1),
    ("sum_to", {}, [4], 10),
    ("is_between", {"k": 3, "m": 30}, [30], True),
    ("add_pairs", {}, [[1, 2, 3], [4, 5]], [5, 7]),
    ("replace_value", {"k": 2, "m": 9}, [[2, 1, 2]], [9, 1, 9]),
    ("append_value", {"k": 7}, [[1]], [1, 7]),
    ("repeat_list", {"k": 2}, [[1, 2]], [1, 2, 1, 2]),
    ("average", {}, [[1, 2]], 1.5),
    ("absolute_each", {}, [[-1, 2]], [1, 2]),
    ("text_length", {}, ["a cat"], 5),
    ("first_word", {}, ["a cat"], "a"),
    ("surround", {"left": "[", "right": "]"}, ["ab"], "[ab]"),
    ("add_ending", {"tail": "!"}, [["a", "b"]], ["a!", "b!"]),
    ("split_words", {}, ["a cat"], ["a", "cat"]),
    ("reverse_text", {}, ["abc"], "cba"),
    ("count_vowels", {}, ["a big cat"], 3),
    ("longest_word", {}, [["ant", "bread", "cloud"]], "bread"),
    ("remove_spaces", {}, ["a big cat"], "abigcat"),
    ("total_length", {}, [["ant", "bread"]], 8),
    ("contains_letter", {"c": "b"}, ["a big cat"], True),
    ("keep_containing", {"c": "r"}, [["ant", "bread"]], ["bread"]),
    ("acronym", {}, [["ant", "bread"]], "ab"),
    ("sum_multiples", {"k": 3}, [[3, 4, 6]], 9),
    ("count_parity", {"bit": 0}, [[1, 2, 4]], 2),
    ("keep_parity", {"bit": 0}, [[1, 2, 4]], [2, 4]),
    ("count_long_words", {"sign": "<", "k": 4}, [["ant", "bread"]], 1),
    ("clamp", {"k": 5, "m": 30}, [99], 30),
    ("reverse_words", {}, ["a big cat"], "cat big a"),
    ("last_letters", {}, [["ant", "bee"]], ["t", "e"]),
    ("change_words", {"way": "upper"}, [["ant"]], ["ANT"]),
    ("ends_with", {"c": "t"}, [["ant", "tea"]], ["ant"]),
    ("power_each", {"exponent": 2}, [[3, -2]], [9, 4]),
    ("is_compare", {"sign": "<", "k": 10}, [10], False),
    ("drop_items", {"slice": ":-2"}, [[1, 2, 3]], [1]),
    ("swap_pair", {}, [1, 2], [2, 1]),
    ("count_down", {"k": 1}, [3], [3, 2, 1]),
    ("remove_letter", {"c": "a"}, ["banana"], "bnn"),
    ("digit_sum", {}, [407], 11),
    ("spread", {}, [[3, -2, 9]], 11),
    ("remove_duplicates", {}, [[3, 1, 3, 2, 1]], [3, 1, 2]),
    ("multiply_all", {}, [[2, 3, -4]], -24),
    ("subtract_pair", {}, [3, 9], 6),
    ("sum_sign", {"test": ">"}, [[-1, 2, 3]], 5),
    ("count_multiples", {"k": 3}, [[3, 4, 6]], 2),
    ("remove_multiples", {"k": 3}, [[3, 4, 6]], [4]),
    ("quotient", {"k": 4}, [-3], -1),
    ("is_outside", {"k": 3, "m": 30}, [31], True),
    ("subtract_pairs", {}, [[1, 2, 3], [4, 5]], [-3, -3]),
    ("prepend_value", {"k": 7}, [[1]], [7, 1]),
    ("scale_and_shift", {"k": 2, "m": 1}, [[1, 2]], [3, 5]),
    ("last_word", {}, ["a big cat"], "cat"),
    ("add_beginning", {"head": "un"}, [["do"]], ["undo"]),
    ("shortest_word", {}, [["bread", "ant", "bee"]], "ant"),
    ("reverse_each", {}, [["ant", "bee"]], ["tna", "eeb"]),
    ("count_containing", {"c": "e"}, [["ant", "bee"]], 1),
    ("remove_containing", {"c": "e"}, [["ant", "bee"]], ["ant"]),
    ("remove_vowels", {}, ["a big cat"], " bg ct"),
    ("reverse_number", {}, [120], 21),
    ("extremes_sum", {}, [[3, -2, 9]], 7),
    ("average_pair", {}, [1, 2], 1.5),
    ("powers_to", {"exponent": 2}, [3], 14),
    ("join_reversed", {}, [["a", "b"]], "ba"),
]


@pytest.mark.parametrize(("name", "values", "arguments", "expected"), MEANINGS, ids=[row[0] for row in MEANINGS])
def test_a_family_computes_what_it_asks_for(name: str, values: dict, arguments: list, expected: object) -> None:
    family = next(family for family in SEEN + HELD_OUT if family.name == name)
    body = family.body.format(a="p", b="q", **values).replace("\n", "\n    ")
    parameters = ", ".join("pq"[: len(family.takes)])
    assert run_gold(f"def f({parameters}):\n    {body}", "f", [arguments]) == [expected]


SAYINGS = {
    ("more", "sign"): {
        ("greater than", ">"),
        ("less than", "<"),
        ("at least", ">="),
        ("greater", ">"),
        ("less", "<"),
    },
    ("parity", "bit"): {("even", 0), ("odd", 1)},
    ("size", "sign"): {("long", ">"), ("short", "<")},
    ("which", "call"): {("largest", "max"), ("smallest", "min"), ("larger", "max"), ("smaller", "min")},
    ("power", "exponent"): {("square", 2), ("cube", 3)},
    ("name", "sign"): {("plus", "+"), ("minus", "-"), ("total", "+"), ("product", "*")},
    ("end", "call"): {("least", "max"), ("most", "min")},
    ("side", "test"): {("positive", ">"), ("negative", "<")},
    ("nth", "k"): {("second", 2), ("third", 3)},
}


@pytest.mark.parametrize(("said", "done"), SAYINGS, ids=lambda key: key)
def test_what_a_variant_says_is_what_it_does(said: str, done: str) -> None:
    variants = [one for family in SEEN + HELD_OUT for one in family.variants if said in one and done in one]
    assert {(one[said], one[done]) for one in variants} == SAYINGS[(said, done)]


def test_the_table_of_meanings_has_every_family() -> None:
    assert [row[0] for row in MEANINGS] == [family.name for family in SEEN + HELD_OUT]


def test_held_out_families_ask_for_what_no_seen_family_computes() -> None:
    assert len(SEEN) >= 60 and len(HELD_OUT) >= 40
    rules = [{(family.body, str(family.variants)) for family in families} for families in (SEEN, HELD_OUT)]
    assert not rules[0] & rules[1] and len(rules[1]) == len(HELD_OUT)
    assert len({family.name for family in SEEN + HELD_OUT}) == len(SEEN + HELD_OUT)
