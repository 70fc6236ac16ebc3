from dataclasses import replace

import pytest
import torch

from burnish.core.errors import InvariantError
from burnish.core.types import Trajectory, Verdict
from burnish.objectives import grpo
from burnish.rollout import invariants
from burnish.rollout.groups import Group, credit


def member(number: int, verdict: Verdict) -> Trajectory:
    return Trajectory(
        group_id="3/0000001", member=number, task_id="t", prompt_hash="p", seed=1, token_ids=(5, 6, 7, 2),
        was_sampled=(False, False, True, True), logprobs=(0.0, 0.0, -0.5, -0.25), reply="7", stop_reason="eos",
        oldest_version=4, newest_version=4, verdict=verdict,
    )  # fmt: skip


def group(*verdicts: Verdict) -> Group:
    return Group("3/0000001", "sums", tuple(member(i, v) for i, v in enumerate(verdicts)))


RIGHT, WRONG = Verdict.scored(1.0), Verdict.scored(0.0)
LOST = Verdict.infrastructure_error("down")


def advantages(rewards_G: torch.Tensor) -> torch.Tensor:
    return grpo.advantages(rewards_G, grpo.Config())


def test_what_is_not_scored_neither_trains_nor_shifts_the_others() -> None:
    clean, with_losses = group(RIGHT, WRONG, WRONG), group(RIGHT, LOST, WRONG, Verdict.timed_out("slow"), WRONG)
    assert [row.advantage for row in credit([with_losses], advantages)] == [
        row.advantage for row in credit([clean], advantages)
    ]


@pytest.mark.parametrize(
    ("verdicts", "has_signal"),
    [
        ([RIGHT, WRONG], True),
        ([RIGHT, RIGHT], False),
        ([WRONG, WRONG, LOST], False),
        ([RIGHT, LOST], False),  # one scored member has nobody to be compared with
    ],
)
def test_a_group_has_signal_if_two_scored_members_differ(verdicts: list[Verdict], has_signal: bool) -> None:
    assert group(*verdicts).has_signal is has_signal


def test_siblings_stay_neighbours_with_their_own_tokens() -> None:
    rows = credit([group(RIGHT, WRONG)], advantages)
    assert [row.advantage > 0 for row in rows] == [True, False]
    assert rows[0].rollout_logprobs == (0.0, 0.0, -0.5, -0.25)
    assert rows[0].num_trained == 2


def check(*members: Trajectory) -> None:
    invariants.check_groups([Group("3/0000001", "sums", members)], version=4, max_staleness=0, stop_ids={2})


def test_sound_groups_pass() -> None:
    check(member(0, RIGHT), member(1, WRONG))


def test_a_member_that_came_to_nothing_is_no_breach_since_it_does_not_train() -> None:
    check(member(0, RIGHT), member(1, WRONG), replace(member(2, LOST), was_sampled=(False,) * 4))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompt_hash": "other"}, "mixes prompts"),
        ({"member": 0}, "a member twice"),
        ({"oldest_version": 3}, "sampled by version 3, trained at 4"),
        ({"oldest_version": 5}, "sampled by version 5"),
        ({"logprobs": (0.0, 0.0, float("nan"), -0.25)}, "no proper log-probability"),
        ({"logprobs": (0.0, 0.0, 0.5, -0.25)}, "no proper log-probability"),
        ({"was_sampled": (False,) * 4}, "no token was sampled"),
        ({"was_sampled": (True,) * 4}, "first token"),
        ({"token_ids": (5, 6, 7, 8)}, "end token is not trained"),
        ({"verdict": LOST}, "1 scored members"),
    ],
)
def test_each_breach_is_named(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InvariantError, match=message):
        check(member(0, RIGHT), replace(member(1, WRONG), **changes))


def test_a_mismatch_over_its_limit_stops_the_run() -> None:
    invariants.check_mismatch(0.01, 0.02)
    with pytest.raises(InvariantError, match=r"disagree by 0\.03"):
        invariants.check_mismatch(0.03, 0.02)
    with pytest.raises(InvariantError, match="not 1"):
        invariants.check_ratio(1.01)
