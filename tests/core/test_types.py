"""The records: exact round trips, and verdicts that cannot lie."""

import json
import math
from dataclasses import replace

import pytest

from burnish.core.types import (
    Completion,
    Message,
    Task,
    Trajectory,
    Verdict,
    VersionChange,
    sha256_json,
    version_changes,
)

TRAJECTORY = Trajectory(
    group_id="g", member=1, task_id="d/train/1/0", prompt_hash="h", seed=2**62 + 1,
    token_ids=(5, 6, 7), was_sampled=(False, True, True), logprobs=(0.0, -1 / 3, -5e-324), reply="naïve \ud800\n",
    stop_reason="eos", oldest_version=3, newest_version=4, verdict=Verdict.scored(0.1 + 0.2, {"a": 1 / 7}, "why"),
    sample_s=0.1, version_changes=(VersionChange(2, 4),),
)  # fmt: skip


@pytest.mark.parametrize("verdict", [TRAJECTORY.verdict, Verdict.unscorable("no truth"), None])
def test_a_trajectory_comes_back_bit_for_bit(verdict):
    trajectory = replace(TRAJECTORY, verdict=verdict)
    assert Trajectory.from_json(trajectory.to_json()) == trajectory


def test_a_trajectory_is_one_line():
    assert "\n" not in TRAJECTORY.to_json()


def test_prompt_length_and_sampled_tokens():
    assert (TRAJECTORY.prompt_length, TRAJECTORY.num_sampled) == (1, 2)


def test_a_change_of_version_is_noted_where_it_falls() -> None:
    assert version_changes((4, 5, 6, 9, 10), (2, 2, 3, 3, 5)) == (VersionChange(6, 3), VersionChange(10, 5))
    assert version_changes((4, 5), (7, 7)) == version_changes((), ()) == ()


def test_a_trajectory_knows_how_old_each_token_is() -> None:
    changed = replace(TRAJECTORY, newest_version=6, version_changes=(VersionChange(2, 6),))
    assert [changed.first_since(version) for version in (2, 3, 4, 6, 7)] == [0, 0, 2, 2, 3]
    assert [changed.version_at(place) for place in (1, 2)] == [3, 6]


def test_a_trajectory_without_a_sampled_token_is_all_prompt():
    empty = replace(TRAJECTORY, was_sampled=(False, False, False))
    assert (empty.prompt_length, empty.num_sampled) == (3, 0)


@pytest.mark.parametrize("score", [-0.001, 1.001, math.nan, math.inf])
def test_a_score_outside_0_to_1_is_refused(score):
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        Verdict.scored(score)


@pytest.mark.parametrize(
    ("kind", "score"), [("scored", None), ("timeout", 0.0), ("unscorable", 0.0), ("infrastructure_error", 1.0)]
)
def test_only_a_scored_verdict_has_a_score(kind, score):
    with pytest.raises(ValueError, match="exactly if it is scored"):
        Verdict(kind=kind, score=score)


@pytest.mark.parametrize("make", [Verdict.unscorable, Verdict.timed_out, Verdict.infrastructure_error])
def test_a_verdict_that_is_not_scored_says_why(make):
    assert (make("because").score, make("because").evidence) == (None, "because")


def test_a_completion_has_one_log_probability_a_token():
    with pytest.raises(AssertionError):
        Completion(token_ids=(1, 2), logprobs=(-1.0,), versions=(0, 0), text="", stop_reason="eos")


def task(**changes):
    base = {"id": "d/train/1/0", "domain": "d", "messages": (Message(role="user", content="2+2?"),), "truth": {"n": 4}}
    return Task(**(base | changes))


def test_equal_prompts_have_one_hash_whatever_the_id():
    assert task(id="d/train/9/9").prompt_hash == task().prompt_hash
    assert task(messages=(Message(role="system", content="2+2?"),)).prompt_hash != task().prompt_hash


def test_the_content_hash_sees_the_truth_and_the_prompt_hash_does_not():
    assert task(truth={"n": 5}).content_hash != task().content_hash
    assert task(truth={"n": 5}).prompt_hash == task().prompt_hash


def test_a_hash_is_of_the_value_and_not_of_the_order_of_its_keys():
    assert sha256_json({"a": 1, "b": [2.5]}) == sha256_json({"b": [2.5], "a": 1})
    assert sha256_json(json.loads('"\\ud800"')) != sha256_json("")
