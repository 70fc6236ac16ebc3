"""The registry and its verifiers of strings, choices, patterns and fields."""

import subprocess
import sys
import time

import pytest

from burnish.core.errors import ConfigError
from burnish.rewards import VERIFIERS, verifier
from burnish.rewards.normalise import amount, day

FIELDS = {"day": "date", "total": "amount", "lines": "number"}
TRUTH = {"day": "2024-04-03", "total": "1234.50", "lines": 3, "name": "Acme Ltd"}


def score(name, truth, reply, **options):
    return verifier(name, options).judge(truth, reply).score


def test_an_unknown_verifier_lists_the_known_ones():
    with pytest.raises(ConfigError, match="no verifier 'nubmer'; there are: exact, number"):
        verifier("nubmer")


@pytest.mark.parametrize("name", VERIFIERS)
def test_an_unknown_option_is_refused(name):
    with pytest.raises(ConfigError, match=f"verifier '{name}': unknown key 'colour'"):
        verifier(name, {"colour": 1})


def test_exact_ignores_what_it_is_told_to_ignore():
    assert score("exact", "Blue  cat", " Blue  cat\n") == 1.0
    assert score("exact", "Blue  cat", "blue cat") == 0.0
    assert score("exact", "Blue  cat", "blue cat", ignore_case=True, ignore_space=True) == 1.0
    assert score("exact", "Blue", "Blue.") == 0.0
    assert score("exact", "caf\u00e9", "cafe\u0301") == 1.0


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("B", 1),
        ("(B)", 1),
        ("B. Paris", 1),
        ("**B**", 1),
        ("The answer is B.", 1),
        ("\\boxed{\\text{(B)}}", 1),
        ("I pick A. No: the answer is B", 1),
        ("The answer is A or B", 0),
        ("A or B", 0),
        ("B because A is wrong", 0),
        ("B) or A)", 0),
        ("b", 1),
        ("BB", 0),
        ("A cat", 0),
        ("", 0),
    ],
)
def test_choice_takes_one_label(reply, expected):
    assert score("choice", "B", reply) == expected


def test_the_article_a_is_no_choice():
    assert score("choice", "A", "A cat sat") == 0.0


def test_regex_matches_the_whole_reply_or_any_part():
    assert score("regex", "[0-9]{3}", " 123\n") == 1.0
    assert score("regex", "[0-9]{3}", "a 123") == 0.0
    assert score("regex", None, "a 123", pattern="[0-9]{3}", match="anywhere") == 1.0


def test_a_pattern_that_backtracks_without_end_elsewhere_is_answered_at_once():
    started = time.process_time()
    assert score("regex", "(a+)+b", "a" * 1_000_000) == 0.0
    assert time.process_time() - started < 2.0


def test_a_pattern_that_cannot_be_used_is_refused_at_loading():
    with pytest.raises(ConfigError, match="look-around"):
        verifier("regex", {"pattern": "(?=a)"})
    assert "not valid RE2" in verifier("regex").fault("(")


def test_thinking_that_began_long_before_the_end_of_a_reply_is_thinking():
    reply = "<think>" + "so " * 7_000 + "the answer is 5."
    assert score("math", "5", reply) == 0.0
    assert score("math", "5", reply + "</think> The answer is 5.") == 1.0


@pytest.mark.parametrize(
    ("name", "truth"),
    [
        ("exact", "<think>well</think>5"),
        ("json", {"note": "</think>"}),
        ("json_fields", {"note": "</think>"}),
        ("math", "<think>it is \\boxed{5}"),
        ("math", "it is \\boxed{5"),
    ],
)
def test_a_truth_that_no_reply_could_be_is_refused_at_loading(name, truth):
    assert verifier(name).fault(truth)


def test_fields_are_compared_in_the_form_of_their_kind():
    reply = '{"day": "3 April 2024", "total": "€ 1.234,50", "lines": 3.0, "name": "ACME  Ltd", "extra": 1}'
    assert score("json_fields", TRUTH, reply, fields=FIELDS) == 1.0


def test_a_wrong_field_costs_accuracy_and_a_missing_one_completeness_too():
    verdict = verifier("json_fields", {"fields": FIELDS}).judge(
        TRUTH, '{"day": "03/04/2024", "total": 1234.5, "lines": "3"}'
    )
    assert verdict.score == 0.25
    assert verdict.parts == {"accuracy": 0.25, "completeness": 0.75, "valid_json": 1.0}
    assert "name: missing" in verdict.evidence and "lines: got '3', expected 3" in verdict.evidence


@pytest.mark.parametrize("reply", ["", "no", "[1]", '{"day": 1, "day": 1}', "[" * 200_000])
def test_what_is_no_object_scores_nothing(reply):
    verdict = verifier("json_fields").judge(TRUTH, reply)
    assert verdict.score == 0.0 and verdict.parts["valid_json"] == 0.0


def test_a_null_truth_asks_for_null():
    assert score("json_fields", {"a": None}, '{"a": null}') == 1.0
    assert score("json_fields", {"a": None}, "{}") == 0.0
    verdict = verifier("json_fields").judge({"a": "x", "b": None}, '{"a": null, "b": null}')
    assert verdict.parts == {"accuracy": 0.5, "completeness": 0.5, "valid_json": 1.0}


def test_a_truth_of_another_kind_is_refused_at_loading():
    fault = verifier("json_fields", {"fields": FIELDS}).fault({**TRUTH, "day": "03/04/2024", "lines": "3"})
    assert "day: '03/04/2024' cannot be read as date" in fault and "lines: '3' is no number" in fault


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("1,234", "1234"),
        ("1.234", "1.234"),
        ("1.234,5", "1234.5"),
        ("1,234.56", "1234.56"),
        ("1.234.567", "1234567"),
        ("12,50 €", "12.50"),
        ("-$5", "-5"),
        ("USD 1'234.50", "1234.50"),
        ("1.2.3", "None"),
        ("abc", "None"),
    ],
)
def test_amounts(written, expected):
    assert str(amount(written)) == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("2024-04-03", "2024-04-03"),
        ("3.4.2024", "2024-04-03"),
        ("04/13/2024", "2024-04-13"),
        ("April 3rd, 2024", "2024-04-03"),
        ("03-Apr-2024", "2024-04-03"),
        ("2024-04-03T00:00:00Z", "2024-04-03"),
        ("03/04/2024", "None"),
        ("2024-02-30", "None"),
        ("3 maybe 2024", "None"),
    ],
)
def test_dates(written, expected):
    assert str(day(written)) == expected


def test_verifiers_import_no_torch():
    program = "import burnish.rewards, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
