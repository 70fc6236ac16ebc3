"""From judged groups to rows that train: rewards are shaped, groups compared, the whole step levelled.

The order is: reward (the score, or what `rl_rewards` makes of the verdict), less the overlong penalty, less KL to the
reference (if it goes into the reward); advantages of each group; replies that were cut off leave the loss if they are
filtered, and tokens that are too old where those are masked (both counted in their group's baseline, and in the reward
of their reply); and last, what the objective does over the whole step, of what is left. Where the objective has KL in
the reward of each token (`KL_TO_THE_END`, REINFORCE++), it is taken after the groups: from a token's advantage, that of
the tokens from it to the end of the reply.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import torch
from torch import Tensor

from burnish.core.types import Trajectory
from burnish.learner.packing import Row
from burnish.models.fused_head import TopTokens
from burnish.objectives import kl, overlong
from burnish.objectives.dialects import Choice
from burnish.objectives.step import Step
from burnish.rollout.groups import Advantages, Group, Reward, credit, score_of
from burnish.rollout.turn_credit import by_turn

ReferenceLogprobs = Callable[[Sequence[Row]], list[Tensor]]
ReferenceTop = Callable[[Sequence[Row]], list[TopTokens]]
FirstTrained = Callable[[Trajectory], int]
"""From which token on a reply trains."""


def from_the_start(member: Trajectory) -> int:
    """No token stays out of the loss for its age."""
    del member
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shaping:
    """What is taken from a reply's score; each part may be off."""

    overlong_cache: int = 0
    max_length: int = 0
    kl_coefficient: float = 0.0
    reference: ReferenceLogprobs | None = None

    def taken(self, groups: Sequence[Group]) -> Mapping[tuple[str, int], float]:
        """What to add to the score of each member that has any change."""
        members = [member for group in groups for member in group.scored]
        changes = {key_of(member): self._overlong(member) for member in members}
        if self.reference is not None:
            rows = credit(groups, torch.zeros_like)
            for member, row, ref_logprobs_T in zip(members, rows, self.reference(rows), strict=True):
                changes[key_of(member)] -= self.kl_coefficient * float(
                    kl.in_reward(sampled_logprobs(row), ref_logprobs_T)
                )
        return changes

    def to_the_end(self, rows: Sequence[Row]) -> list[Row]:
        """Take from the advantage of each token what it and the tokens after it lie away from the reference."""
        assert self.reference is not None
        return [
            replace(row, token_advantages=tuple((row.advantage - self.kl_coefficient * _tail_sums(kl_T)).tolist()))
            for row, ref_logprobs_T in zip(rows, self.reference(rows), strict=True)
            for kl_T in [kl.k1(sampled_logprobs(row), ref_logprobs_T)]
        ]

    def _overlong(self, member: Trajectory) -> float:
        if not self.overlong_cache:
            return 0.0
        return overlong.soft_penalty(member.num_sampled, max_length=self.max_length, cache=self.overlong_cache)


def credit_step(
    groups: Sequence[Group], advantages: Advantages, choice: Choice, shaping: Shaping, *, reward: Reward = score_of,
    filter_overlong: bool = False, is_by_turn: bool = False, first_trained: FirstTrained = from_the_start,
) -> list[list[Row]]:  # fmt: skip
    """One list of rows a group, in order; a group whose replies were all filtered, or are too old, has none."""
    is_by_token = shaping.reference is not None and hasattr(choice.module, "KL_TO_THE_END")
    changes = (replace(shaping, reference=None) if is_by_token else shaping).taken(groups)

    def changed(member: Trajectory) -> float:
        return reward(member) + changes[key_of(member)]

    rows_P = [credit([group], advantages, changed) for group in groups]
    if is_by_turn:
        rows_P = [by_turn(group, rows, advantages, changed) for group, rows in zip(groups, rows_P, strict=True)]
    if is_by_token:
        rows_P = [shaping.to_the_end(rows) for rows in rows_P]
    rows_P = [
        [
            left
            for row, member in zip(rows, group.scored, strict=True)
            if not (filter_overlong and member.stop_reason == "length")
            and (left := _from_token(row, first_trained(member))) is not None
        ]
        for rows, group in zip(rows_P, groups, strict=True)
    ]
    return _over_step(rows_P, choice) if hasattr(choice.module, "over_step") and any(rows_P) else rows_P


def _from_token(row: Row, first: int) -> Row | None:
    """The row whose tokens before `first` do not train; None where none is left."""
    if not (num_left_out := sum(row.was_sampled[:first])):
        return row
    if num_left_out == row.num_trained:
        return None
    return replace(
        row,
        was_sampled=(False,) * first + row.was_sampled[first:],
        token_advantages=row.token_advantages and row.token_advantages[num_left_out:],
    )


def _over_step(rows_P: Sequence[Sequence[Row]], choice: Choice) -> list[list[Row]]:
    flat = [(number, row) for number, rows in enumerate(rows_P) for row in rows]
    if all(row.token_advantages for _, row in flat):
        return _over_tokens(rows_P, choice)
    step = Step(
        advantages_B=torch.tensor([row.advantage for _, row in flat]),
        lengths_B=torch.tensor([row.num_trained for _, row in flat]),
        group_B=torch.unique(torch.tensor([number for number, _ in flat]), return_inverse=True)[1],
    )
    levelled: list[list[Row]] = [[] for _ in rows_P]
    for (number, row), advantage in zip(flat, choice.module.over_step(step, choice.config).tolist(), strict=True):
        levelled[number].append(replace(row, advantage=advantage))
    return levelled


def _over_tokens(rows_P: Sequence[Sequence[Row]], choice: Choice) -> list[list[Row]]:
    """As over replies, each token being one of length 1."""
    groups = [number for number, rows in enumerate(rows_P) for row in rows for _ in row.token_advantages or ()]
    values = [value for rows in rows_P for row in rows for value in row.token_advantages or ()]
    step = Step(
        advantages_B=torch.tensor(values),
        lengths_B=torch.ones(len(values), dtype=torch.long),
        group_B=torch.unique(torch.tensor(groups), return_inverse=True)[1],
    )
    levelled = iter(choice.module.over_step(step, choice.config).tolist())
    return [
        [replace(row, token_advantages=tuple(islice(levelled, row.num_trained))) for row in rows] for rows in rows_P
    ]


def _tail_sums(values_T: Tensor) -> Tensor:
    return values_T.flip(0).cumsum(0).flip(0)


def sampled_logprobs(row: Row) -> Tensor:
    """The sampler's own log-probabilities of a row's trained tokens."""
    assert row.rollout_logprobs is not None
    pairs = zip(row.rollout_logprobs, row.was_sampled, strict=True)
    return torch.tensor([logprob for logprob, was_sampled in pairs if was_sampled])


def key_of(member: Trajectory) -> tuple[str, int]:
    """Which member of which group."""
    return member.group_id, member.member
