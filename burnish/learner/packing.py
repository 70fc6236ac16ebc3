"""Lay sequences end to end so that nothing is computed twice and nothing is padded.

What rows of a pack begin with in common (a group's prompt, a trajectory's earlier turns, a system prompt) goes
through the model once: a pack is a prefix tree. A pack holds whole groups (neighbouring rows with one prompt) up to
a token budget; a group that is over the budget is split by rows, and a row that is over it makes a pack of its own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from burnish.learner.prefix_tree import Node, PrefixTree, places
from burnish.models.attention import PackedLayout


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One sequence and what trains it.

    `was_sampled` marks the tokens that train (the first token of a sequence never can). `advantage`
    holds for all of them, unless `token_advantages` has one for each; `rollout_logprobs` has one entry a token of
    the sequence, 0.0 where it was not sampled.
    """

    token_ids: tuple[int, ...]
    was_sampled: tuple[bool, ...]
    advantage: float = 0.0
    rollout_logprobs: tuple[float, ...] | None = None
    token_advantages: tuple[float, ...] | None = None

    @property
    def prompt_length(self) -> int:
        """How many tokens come before the first that trains."""
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


def pack(rows: Sequence[Row], max_tokens: int, *, num_together: int = 1) -> Iterator[Pack]:
    """Pack rows in an order that depends on the rows alone; so many neighbours (a pair, say) are never parted."""
    units = [list(range(start, start + num_together)) for start in range(0, len(rows), num_together)]
    pending = _Pending()
    for _, run in groupby(units, key=lambda unit: rows[unit[0]].prompt):
        group = list(run)
        whole = [index for unit in group for index in unit]
        for part in [whole] if _cost(rows, whole) <= max_tokens else group:
            if pending.ends and pending.num_tokens_with(rows, part) > max_tokens:
                yield _build(rows, pending)
                pending = _Pending()
            pending.add(rows, part)
    if pending.ends:
        yield _build(rows, pending)


class _Pending:
    """A pack that is being filled: the tree, and where each row ends in it."""

    def __init__(self) -> None:
        self.tree = PrefixTree()
        self.ends: list[tuple[int, Node]] = []

    def add(self, rows: Sequence[Row], part: Sequence[int]) -> None:
        self.ends += [(index, self.tree.insert(_inputs(rows[index]))) for index in part]

    def num_tokens_with(self, rows: Sequence[Row], part: Sequence[int]) -> int:
        """At most so many tokens it has when the part is added: of two bounds, the better one."""
        one_by_one = sum(self.tree.num_missing(_inputs(rows[index])) for index in part)
        return self.tree.num_tokens + min(one_by_one, _cost(rows, part))


def _inputs(row: Row) -> tuple[int, ...]:
    """The last token predicts nothing."""
    return row.token_ids[:-1]


def _cost(rows: Sequence[Row], members: Sequence[int]) -> int:
    """How many tokens these rows are in a tree of their own."""
    tree = PrefixTree()
    for index in members:
        tree.insert(_inputs(rows[index]))
    return tree.num_tokens


def _build(rows: Sequence[Row], pending: _Pending) -> Pack:
    flat = pending.tree.flatten()
    predictors: list[int] = []
    targets: list[int] = []
    for index, end in pending.ends:
        row, at = rows[index], places(end)
        for place, was_sampled in enumerate(row.was_sampled):
            if was_sampled:
                predictors.append(at[place - 1])
                targets.append(row.token_ids[place])
    return Pack(
        token_ids_T=torch.tensor(flat.token_ids),
        positions_T=torch.tensor(flat.positions),
        layout=PackedLayout(flat.blocks),
        predictor_N=torch.tensor(predictors),
        target_ids_N=torch.tensor(targets),
        row_indices=tuple(index for index, _ in pending.ends),
    )
