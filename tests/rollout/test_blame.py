"""Who is blamed for a suite that got worse."""

import pytest

from burnish.rollout.blame import after_failure, after_success, suspicions


def test_a_newcomer_is_suspected_more_than_one_that_was_there_when_gates_passed() -> None:
    found = suspicions({"old": 0.5, "new": 0.5}, {"old": 1.45})
    assert found == pytest.approx({"old": 0.25, "new": 0.5 / 0.55})


def test_the_most_suspected_loses_the_whole_cut_and_what_slipped_is_raised() -> None:
    trained = {"slipped": 0.5, "new": 0.25, "old": 0.25}
    factors = after_failure({}, trained, {"slipped": 1.0, "old": 1.2}, ["slipped"], trained, cut=0.75)
    assert factors["slipped"] == 1.5
    assert factors["new"] == pytest.approx(0.25)
    assert factors["old"] == pytest.approx(1 - 0.75 * (0.25 / 1.5) / (0.25 / 0.3))


def test_what_did_not_train_in_the_stretch_is_not_lowered() -> None:
    factors = after_failure({}, {"b": 1.0, "c": 1.0}, {}, ["a"], {"b": 1.0}, cut=0.75)
    assert factors == {"b": 0.25, "a": 1.5}


def test_a_domain_that_trained_alone_is_blamed_for_its_own_loss() -> None:
    assert after_failure({}, {"a": 1.0}, {}, ["a"], {"a": 1.0}, cut=0.75) == {"a": 0.25}


def test_what_fails_again_and_again_leaves() -> None:
    factors: dict[str, float] = {}
    for _ in range(3):
        factors = after_failure(factors, {"b": 1.0}, {}, ["a"], {"a": 0.5, "b": 0.5}, cut=0.75)
    assert factors == {"b": 0.0, "a": 1.5**3}


def test_a_pass_takes_back_what_was_raised_and_not_what_was_lowered() -> None:
    assert after_success({"a": 2.25, "b": 0.25, "c": 0.0}) == {"b": 0.25, "c": 0.0}
