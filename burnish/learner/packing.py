"""Lay sequences end to end so that nothing is computed twice and nothing is padded.

Rows that share their prompt become one block: the prompt goes through the model once, each reply sees
it and itself. A pack holds whole blocks up to a token budget; a block that is over the budget is split
by members, and a single sequence that is over it makes a pack of its own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from burnish.models.attention import Block, PackedLayout, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One sequence and what trains it.

    `was_sampled` marks the tokens that train (the first token of a sequence never can). `advantage`
    holds for all of them; `rollout_logprobs` has one entry a token, 0.0 where it was not sampled.
    """

    token_ids: tuple[int, ...]
    was_sampled: tuple[bool, ...]
    advantage: float = 0.0
    rollout_logprobs: tuple[float, ...] | None = None

    @property
    def prompt_length(self) -> int:
        """How many tokens come before the first that trains; at least one token stays a reply's own."""
        return self.was_sampled.index(True)

    @property
    def prompt(self) -> tuple[int, ...]:
        """The tokens before the first that trains."""
        return self.token_ids[: self.prompt_length]

    @property
    def num_trained(self) -> int:
        """How many tokens train."""
        return sum(self.was_sampled)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """One forward. For each trained token: whence it is predicted, what it is, which row it is in."""

    token_ids_T: Tensor
    positions_T: Tensor
    layout: PackedLayout
    predictor_N: Tensor
    target_ids_N: Tensor
    row_indices: tuple[int, ...]
    """Index into the rows that were packed, in the order in which their trained tokens lie."""


def pack(rows: Sequence[Row], max_tokens: int) -> Iterator[Pack]:
    """Pack rows in an order that depends on the rows alone."""
    pending: list[list[int]] = []
    num_tokens = 0
    for members in _blocks(rows, max_tokens):
        cost = _cost(rows, members)
        if pending and num_tokens + cost > max_tokens:
            yield _build(rows, pending)
            pending, num_tokens = [], 0
        pending.append(members)
        num_tokens += cost
    if pending:
        yield _build(rows, pending)


def _blocks(rows: Sequence[Row], max_tokens: int) -> Iterator[list[int]]:
    """Runs of neighbouring rows with one prompt, split where they exceed the budget."""
    for _, run in groupby(range(len(rows)), key=lambda index: rows[index].prompt):
        members: list[int] = []
        for index in run:
            if members and _cost(rows, [*members, index]) > max_tokens:
                yield members
                members = []
            members.append(index)
        yield members


def _cost(rows: Sequence[Row], members: Sequence[int]) -> int:
    prompt_length = rows[members[0]].prompt_length
    return prompt_length + sum(len(rows[index].token_ids) - prompt_length - 1 for index in members)


def _build(rows: Sequence[Row], blocks_members: Sequence[Sequence[int]]) -> Pack:
    token_ids: list[int] = []
    positions: list[int] = []
    blocks: list[Block] = []
    predictors: list[int] = []
    targets: list[int] = []
    for members in blocks_members:
        prompt = rows[members[0]].prompt
        prefix = Span(len(token_ids), len(prompt))
        token_ids += prompt
        positions += range(len(prompt))
        spans: list[Span] = []
        for index in members:
            row = rows[index]
            span = Span(len(token_ids), len(row.token_ids) - len(prompt) - 1)
            token_ids += row.token_ids[len(prompt) : -1]
            positions += range(len(prompt), len(row.token_ids) - 1)
            for place in range(len(prompt), len(row.token_ids)):
                if row.was_sampled[place]:
                    in_prefix = place == len(prompt)
                    predictors.append(prefix.start + place - 1 if in_prefix else span.start + place - 1 - len(prompt))
                    targets.append(row.token_ids[place])
            if span.length:
                spans.append(span)
        blocks.append(Block(prefix, tuple(spans)))
    return Pack(
        token_ids_T=torch.tensor(token_ids),
        positions_T=torch.tensor(positions),
        layout=PackedLayout(blocks),
        predictor_N=torch.tensor(predictors),
        target_ids_N=torch.tensor(targets),
        row_indices=tuple(index for members in blocks_members for index in members),
    )
