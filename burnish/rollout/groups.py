"""Groups: one prompt, several attempts, and the credit that each of them gets from the others."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from burnish.core.types import Trajectory
from burnish.learner.packing import Row

Advantages = Callable[[Tensor], Tensor]
Reward = Callable[[Trajectory], float]
"""What a scored member is worth when it is compared."""


class Group(NamedTuple):
    """All members of one group, judged."""

    id: str
    source_name: str
    members: tuple[Trajectory, ...]

    @property
    def scored(self) -> list[Trajectory]:
        """The members that have a score; no other trains."""
        return [m for m in self.members if m.verdict is not None and m.verdict.kind == "scored"]

    @property
    def rewards(self) -> list[float]:
        """The scores of the scored members."""
        return [score_of(member) for member in self.scored]

    @property
    def has_signal(self) -> bool:
        """Whether at least two members were scored and not all alike."""
        return len(set(self.rewards)) > 1


def score_of(member: Trajectory) -> float:
    """The score of a scored member."""
    assert member.verdict is not None and member.verdict.score is not None
    return member.verdict.score


def credit(groups: Sequence[Group], advantages: Advantages, reward: Reward = score_of) -> list[Row]:
    """One row a scored member, in order; siblings stay neighbours, so that they share their prompt."""
    rows: list[Row] = []
    for group in groups:
        advantages_G = advantages(torch.tensor([reward(member) for member in group.scored])).tolist()
        rows += [
            Row(token_ids=m.token_ids, was_sampled=m.was_sampled, advantage=advantage, rollout_logprobs=m.logprobs)
            for m, advantage in zip(group.scored, advantages_G, strict=True)
        ]
    return rows
