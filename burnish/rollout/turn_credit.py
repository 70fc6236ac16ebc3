"""Turn-wise advantages: what a step has earned is credited to the turns up to it, and not to those that came after.

A trajectory's reward is compared with its siblings' as a whole (`groups.credit`). Where steps earned shares of it
(`Step.earned`), a token of turn k is compared by the reward that was still to come:

    togo_i(k) = reward_i - sum of what steps before k earned,      advantage_i(k) = A(togo_1(k) ... togo_G(k))_i

with A the objective's own comparison of a group. This is reward-to-go (Sutton et al., Policy Gradient Methods, NIPS
1999, eq. 2: an action is credited with what follows it), with what the siblings have still to come at the same turn as
its baseline. A sibling that has ended before turn k counts with what its end was worth.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import torch

from burnish.core.types import Trajectory
from burnish.learner.packing import Row
from burnish.rollout.groups import Advantages, Group, Reward, score_of


def by_turn(group: Group, rows: Sequence[Row], advantages: Advantages, reward: Reward = score_of) -> list[Row]:
    """The rows of a group's scored members, with an advantage for each token where steps earned something."""
    members = group.scored
    if not any(step.earned for member in members for step in member.steps):
        return [replace(row, token_advantages=(row.advantage,) * row.num_trained) for row in rows]
    rewards = [reward(member) for member in members]
    num_turns = max(len(member.steps) for member in members)
    spent_G_K = [_spent_before(member, num_turns) for member in members]
    advantages_K_G = [
        advantages(
            torch.tensor([whole - spent[turn] for whole, spent in zip(rewards, spent_G_K, strict=True)])
        ).tolist()
        for turn in range(num_turns)
    ]
    return [
        replace(row, token_advantages=_of_tokens(member, [of_turn[place] for of_turn in advantages_K_G]))
        for place, (member, row) in enumerate(zip(members, rows, strict=True))
    ]


def _spent_before(member: Trajectory, num_turns: int) -> list[float]:
    """What was earned before each turn; turns that a member did not take come after all that it earned."""
    earned = [step.earned for step in member.steps] + [0.0] * (num_turns - len(member.steps))
    return [0.0, *accumulate(earned)][:num_turns]


def _of_tokens(member: Trajectory, advantages: Sequence[float]) -> tuple[float, ...]:
    """One advantage for each trained token; a member without steps is one turn."""
    if not member.steps:
        return (advantages[0],) * member.num_sampled
    return tuple(
        advantage
        for step, advantage in zip(member.steps, advantages, strict=False)
        for _ in range(sum(member.was_sampled[step.first : step.end]))
    )
