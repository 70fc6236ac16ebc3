"""Experience replay: importance is truncated, what the policy has left is dropped and counted, nothing is silent."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from burnish.core.errors import ConfigError
from burnish.core.recipe import TaskEntry
from burnish.core.types import Trajectory
from burnish.learner.packing import Row
from burnish.learner.ranked_policy import AnyPolicy
from burnish.objectives import Streams
from burnish.objectives.dialects import choose
from burnish.rollout.groups import Group
from burnish.stages.rl_config import Config
from burnish.stages.rl_credit import Shaping
from burnish.stages.rl_domains import rules_of
from burnish.stages.rl_experience import Experience, Stored, open_experience, replay_loss
from burnish.stages.rl_history_config import ReplayConfig
from tests.stages.stored import trajectory


def row(*logprobs: float, advantage: float = 1.0, first: int = 1) -> Row:
    ids = (first, *range(2, 2 + len(logprobs)))
    return Row(
        token_ids=ids, was_sampled=(False, *[True] * len(logprobs)), advantage=advantage,
        rollout_logprobs=(0.0, *logprobs),
    )  # fmt: skip


class Scores:
    """A policy that finds every token of probability 1/e."""

    def logprobs(self, rows: Sequence[Row], temperature: float) -> list[Tensor]:
        return [torch.full((one.num_trained,), -temperature) for one in rows]


def taken(stored: Sequence[Stored], step: int = 0, num_fresh: int = 8, **options: Any) -> Any:
    experience = Experience(stored, ReplayConfig(**options), num_fresh=num_fresh, seed=1)
    return experience.of(step, cast(AnyPolicy, Scores()), {"a": 1.0, "b": 0.5})


def test_a_tokens_weight_is_its_ratio_cut_at_the_cap() -> None:
    now_T = torch.tensor([-1.0, -1.0, -1.0], dtype=torch.float64)
    s = Streams(
        new_logprobs_T=now_T.clone().requires_grad_(),
        weights_T=torch.ones(3, dtype=torch.float64),
        sequence_T=torch.tensor([0, 0, 1]),
        advantages_T=torch.tensor([2.0, 2.0, -1.0], dtype=torch.float64),
        old_logprobs_T=now_T,
        rollout_logprobs_T=torch.tensor([-1.0, -3.0, -0.5], dtype=torch.float64),
    )
    found = replay_loss(choose("objectives", "grpo"), cap=2.0)(s)
    weights = [1.0, 2.0, float(torch.tensor(-0.5, dtype=torch.float64).exp())]  # exp(2) is cut
    assert float(found.total.detach()) == pytest.approx(-(2 * weights[0] + 2 * weights[1] - weights[2]))
    assert float(found.metrics["importance"]) == pytest.approx(sum(weights))
    assert float(found.metrics["truncated"]) == 1.0
    found.total.backward()
    assert s.new_logprobs_T.grad is not None
    assert s.new_logprobs_T.grad.tolist() == pytest.approx([-2 * weights[0], -2 * weights[1], weights[2]])


def test_a_reply_that_the_policy_has_left_is_dropped_and_counted() -> None:
    near, far, cancelling = row(-1.4, -1.0), row(-1.0, -3.0, first=7), row(-0.2, -1.8, first=8)
    replayed, told = taken([Stored("a", one) for one in (near, far, cancelling)], share=0.5, bound=0.5)
    assert [one.rows for one in replayed] == [
        [near]
    ]  # means of |log-ratio| are 0.2, 1 and 0.8, of log-ratios 0 at last
    assert told == {"replay/replies": 1, "replay/dropped_beyond_bound": 2}


def test_each_name_is_scored_at_its_own_temperature() -> None:
    replayed, _ = taken([Stored("a", row(-1.0)), Stored("b", row(-0.5))], share=0.5, bound=0.01)
    assert sorted((one.name, [now_T.tolist() for now_T in one.now_logprobs]) for one in replayed) == [
        ("a", [[-1.0]]), ("b", [[-0.5]]),
    ]  # fmt: skip


def test_a_step_takes_its_share_and_each_reply_is_taken_so_often_and_no_more() -> None:
    stored = [Stored("a", row(-1.0, first=100 + number)) for number in range(6)]
    experience = Experience(stored, ReplayConfig(share=0.25, max_uses=3), num_fresh=12, seed=1)
    steps = [experience.of(step, cast(AnyPolicy, Scores()), {"a": 1.0}) for step in range(7)]
    assert [told["replay/replies"] for _, told in steps] == [4, 4, 4, 4, 2, 0, 0]  # 4 of 16 are a quarter
    used = [one.token_ids[0] for replayed, _ in steps for of_name in replayed for one in of_name.rows]
    assert sorted(used) == sorted([*range(100, 106)] * 3)


def test_what_a_step_takes_follows_from_its_number() -> None:
    stored = [Stored("a", row(-1.0, first=100 + number)) for number in range(30)]
    first, again = (taken(stored, step=2, share=0.5)[0][0].rows for _ in range(2))
    assert first == again != taken(stored, step=1, share=0.5)[0][0].rows


GOOD, BAD = trajectory("1+1=", "2", 1.0), trajectory("1+1=", "3", 0.0, member=1)


def opened(*members: Trajectory, **rl: Any) -> Experience:
    config = Config(num_steps=1, objective="grpo")
    rules = rules_of(config, [TaskEntry(domain="arithmetic", rl=rl)])
    members = tuple(replace(one, group_id="h", member=number) for number, one in enumerate(members))
    return open_experience(
        [Group("h", "arithmetic", members)], rules, ReplayConfig(share=0.5, bound=9.0), num_fresh=4,
        is_by_turn=False, filter_overlong=False, shapings={"arithmetic": Shaping()}, seed=1,
    )  # fmt: skip


def test_advantages_are_those_against_all_stored_replies_to_the_prompt() -> None:
    replayed, _ = opened(GOOD, BAD).of(0, cast(AnyPolicy, Scores()), {"arithmetic": 1.0})
    advantages = sorted(one.advantage for one in replayed[0].rows)
    assert advantages == pytest.approx([-(0.5**0.5), 0.5**0.5], abs=1e-4)


def test_replies_whose_log_probabilities_nobody_noted_are_refused() -> None:
    silent = [replace(one, logprobs=(0.0,) * len(one.logprobs)) for one in (GOOD, BAD)]
    with pytest.raises(ConfigError, match="all of the 2 stored ones are 0, as if none had been noted"):
        opened(*silent)


def test_replies_that_scored_alike_and_moments_that_count_are_refused() -> None:
    with pytest.raises(ConfigError, match="none of 1 stored groups has replies that were rewarded differently"):
        opened(GOOD, GOOD)
    with pytest.raises(ConfigError, match="replay with normaliser 'running' of 'arithmetic'"):
        opened(GOOD, BAD, objective="dr_grpo", max_new_tokens=8, normaliser="running")
