"""What an update is made of: rows, how their tokens are weighed, and the streams that a loss sees of a pack."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from burnish.learner.packing import Pack, Row
from burnish.models.forward import TokenStats
from burnish.models.fused_head import TopTokens
from burnish.objectives import Streams, aggregation

T = TypeVar("T")


class Batch(NamedTuple):
    """Rows of one update and how their tokens are weighed.

    `advantages` has an entry a row, one a trained token; None is what each row says itself.
    `old_logprobs` has an entry a row: the proximal policy's, one a trained token; None means that the policy that is
    being differentiated is the proximal policy (the first update on fresh samples). `ref_top` has an entry a row: the
    reference's likeliest tokens at each trained place, which the policy is asked for too. `share` is what the batch
    counts in an update of several (of algorithms that weigh tokens or score them in other ways); theirs come to 1.
    """

    rows: Sequence[Row]
    aggregate: aggregation.Kind
    max_length: int
    temperature: float = 1.0
    old_logprobs: Sequence[Tensor] | None = None
    ref_logprobs: Sequence[Tensor] | None = None
    advantages: Sequence[Tensor] | None = None
    ref_top: Sequence[TopTokens] | None = None
    share: float = 1.0

    @property
    def num_together(self) -> int:
        """How many neighbouring rows a loss must see at once."""
        return 2 if self.aggregate == "pair_mean" else 1

    @property
    def global_weight(self) -> float:
        """What the sum of the losses is divided by; the shares of several ranks add up."""
        weights = (aggregation.sequence_weight(self.aggregate, row.num_trained, self.max_length) for row in self.rows)
        return sum(weights) / self.share


def shared_out(batch: Batch, num_shares: int) -> list[Batch]:
    """As many batches of neighbouring rows, whose updates add up to that of the whole."""

    def cut(values: Sequence[T] | None, share: slice) -> Sequence[T] | None:
        return None if values is None else values[share]

    return [
        batch._replace(
            rows=batch.rows[share],
            old_logprobs=cut(batch.old_logprobs, share),
            ref_logprobs=cut(batch.ref_logprobs, share),
            advantages=cut(batch.advantages, share),
            ref_top=cut(batch.ref_top, share),
        )
        for share in shares(batch.rows, num_shares, batch.num_together)
    ]


def shares(rows: Sequence[Row], num_shares: int, num_together: int = 1) -> list[slice]:
    """Cut rows into runs of about as many tokens each, which are empty where there are few rows."""
    ends = [0, *accumulate(len(row.token_ids) for row in rows)][::num_together]
    cuts = [num_together * _nearest(ends, ends[-1] * share / num_shares) for share in range(num_shares + 1)]
    return [slice(first, end) for first, end in pairwise(cuts)]


def _nearest(rising: Sequence[int], wanted: float) -> int:
    """Where the value nearest to `wanted` stands."""
    place = bisect_left(rising, wanted)
    return place - 1 if place and wanted - rising[place - 1] < rising[place] - wanted else place


def streams(batch: Batch, piece: Pack, stats: TokenStats) -> Streams:
    """The streams of one pack, on the device of its log-probabilities."""
    rows = [batch.rows[index] for index in piece.row_indices]
    lengths = [row.num_trained for row in rows]
    repeats = torch.tensor(lengths)
    device = stats.logprobs_N.device
    of_rows_N = torch.tensor([value for row in rows for value in _advantages(row)])
    advantages_N = _select(batch.advantages, piece.row_indices, device)
    old_logprobs_N = _select(batch.old_logprobs, piece.row_indices, device)
    rollout_logprobs_N = _sampled_logprobs(rows)
    return Streams(
        new_logprobs_T=stats.logprobs_N,
        weights_T=aggregation.weigh(batch.aggregate, lengths, max_length=batch.max_length).weights_T.to(device),
        sequence_T=torch.arange(len(rows)).repeat_interleave(repeats).to(device),
        advantages_T=of_rows_N.to(device) if advantages_N is None else advantages_N,
        old_logprobs_T=stats.logprobs_N.detach() if old_logprobs_N is None else old_logprobs_N,
        rollout_logprobs_T=None if rollout_logprobs_N is None else rollout_logprobs_N.to(device),
        ref_logprobs_T=_select(batch.ref_logprobs, piece.row_indices, device),
        entropies_T=stats.entropies_N,
        top_logprobs_T_K=stats.top.logprobs_N_K if stats.top else None,
        ref_top_logprobs_T_K=_ref_top_logprobs(batch, piece, device),
    )


def ref_top_ids(batch: Batch, piece: Pack) -> Tensor | None:
    """The tokens that the policy is asked for in a pack beside those that train."""
    if batch.ref_top is None or not piece.row_indices:
        return None
    return torch.cat([batch.ref_top[index].ids_N_K for index in piece.row_indices])


def _ref_top_logprobs(batch: Batch, piece: Pack, device: torch.device) -> Tensor | None:
    return _select([top.logprobs_N_K for top in batch.ref_top], piece.row_indices, device) if batch.ref_top else None


def _advantages(row: Row) -> Sequence[float]:
    return row.token_advantages or (row.advantage,) * row.num_trained


def _select(values: Sequence[Tensor] | None, indices: Sequence[int], device: torch.device) -> Tensor | None:
    return None if values is None else torch.cat([values[index] for index in indices]).to(device)


def _sampled_logprobs(rows: Sequence[Row]) -> Tensor | None:
    def of(row: Row) -> Iterator[float]:
        assert row.rollout_logprobs is not None
        return (value for value, sampled in zip(row.rollout_logprobs, row.was_sampled, strict=True) if sampled)

    if any(row.rollout_logprobs is None for row in rows):
        return None
    return torch.tensor([value for row in rows for value in of(row)])
