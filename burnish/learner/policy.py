"""The policy: one set of weights that the engine samples from and the learner updates.

Compute runs in the model's precision; the masters, gradients and optimiser state of what trains are
float32. A batch is gone through in packs; each pack's loss is a sum that is divided by the weight of
the *whole* batch, over all ranks, so that packing, accumulation and the number of ranks change nothing.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from burnish.core.errors import InvariantError
from burnish.learner.batch import Batch, ref_top_ids, streams
from burnish.learner.optimiser import OptimiserConfig
from burnish.learner.packing import Pack, Row, pack
from burnish.learner.ranks import Alone, Ranks
from burnish.learner.weights import Snapshot, Weights
from burnish.models.forward import PackedForward, TokenStats
from burnish.models.fused_head import TopTokens
from burnish.models.parameters import hidden_matrices
from burnish.objectives import Loss, Streams

LossFunction = Callable[[Streams], Loss]

_NOTHING = Row(token_ids=(0, 0), was_sampled=(False, True))
"""What a rank runs through the model where others have a pack more."""


@runtime_checkable
class Noting(Protocol):
    """A loss that keeps notes beside its metrics. Where ranks compute copies of it, it takes over what they noted."""

    def clear(self) -> None:
        """Forget all notes."""
        ...

    def absorb(self, other: object) -> None:
        """Add the notes of a copy."""
        ...


class Scorer(Protocol):
    """Scores rows by some weights."""

    def logprobs(self, rows: Sequence[Row], temperature: float) -> list[Tensor]:
        """Score the trained tokens of each row."""
        ...

    def top_tokens(self, rows: Sequence[Row], k: int, temperature: float) -> list[TopTokens]:
        """The k likeliest tokens at each trained place of each row."""
        ...


class Policy:
    """A language model, its trainable weights, and how they are scored and updated."""

    def __init__(
        self,
        model: PreTrainedModel,
        parameters: Mapping[str, nn.Parameter],
        *,
        max_pack_tokens: int = 2048,
        ranks: Ranks | None = None,
        forward: PackedForward | None = None,
    ) -> None:
        self.model = model
        self.weights = Weights(parameters, matrices=hidden_matrices(model), ranks=ranks)
        self._max_pack_tokens = max_pack_tokens
        self._ranks = ranks or Alone()
        self._run = forward or PackedForward(model)

    @property
    def version(self) -> int:
        """How often the weights have moved."""
        return self.weights.version

    @property
    def masters(self) -> Mapping[str, nn.Parameter]:
        """The float32 weights that train."""
        return self.weights.masters

    def reset_optimiser(self, config: OptimiserConfig) -> None:
        """Start a new stage: fresh moments, gradients zero."""
        self.weights.reset_optimiser(config)

    def forward_backward(self, batch: Batch, loss: LossFunction) -> dict[str, float]:
        """Add the batch's gradient to the masters'; return the loss, and its metrics as means over tokens."""
        global_weight = self._ranks.total({"weight": batch.global_weight})["weight"]
        assert global_weight, "a batch needs a token that trains"
        sums = {"loss": 0.0, "weights": 0.0}
        for piece in self._packs(batch.rows, batch.num_together):
            stats = self._forward(piece, batch.temperature, ref_top_ids(batch, piece))
            if not piece.row_indices:
                (stats.logprobs_N.sum() * 0).backward()
                continue
            given = streams(batch, piece, stats)
            result = loss(given)
            (result.total / global_weight).backward()
            self.weights.take_gradients()
            for name, value in _measured(result, given, stats).items():
                sums[name] = sums.get(name, 0.0) + value
        return _checked(self._means(sums, global_weight))

    def optim_step(self, learning_rate: float) -> float:
        """Clip, update masters and weights, raise the version; return the gradient norm before clipping."""
        return self.weights.step(learning_rate)

    @torch.no_grad()
    def logprobs(self, rows: Sequence[Row], temperature: float) -> list[Tensor]:
        """Score the trained tokens of each row, by the forward that trains."""
        scored: dict[int, Tensor] = {}
        for piece in self._packs(rows, 1):
            logprobs_N = self._forward(piece, temperature).logprobs_N
            lengths = [rows[index].num_trained for index in piece.row_indices]
            if lengths:
                scored.update(zip(piece.row_indices, logprobs_N.split(lengths), strict=True))
        return [scored[index] for index in range(len(rows))]

    @torch.no_grad()
    def top_tokens(self, rows: Sequence[Row], k: int, temperature: float) -> list[TopTokens]:
        """The k likeliest tokens at each trained place of each row."""
        found: dict[int, TopTokens] = {}
        for piece in self._packs(rows, 1):
            top = self._forward(piece, temperature, k).top
            lengths = [rows[index].num_trained for index in piece.row_indices]
            if lengths and top is not None:
                parts = zip(top.ids_N_K.split(lengths), top.logprobs_N_K.split(lengths), strict=True)
                found.update(zip(piece.row_indices, (TopTokens(*part) for part in parts), strict=True))
        return [found[index] for index in range(len(rows))]

    def snapshot(self) -> Snapshot:
        """A copy of the masters as they are now."""
        return self.weights.snapshot()

    def as_snapshot(self, snapshot: Snapshot) -> AbstractContextManager[None]:
        """Compute with other weights within the block."""
        return self.weights.as_snapshot(snapshot)

    def frozen(self) -> Scorer:
        """What scores by the weights of this moment for good, for example the reference of a KL penalty."""
        return _Frozen(self, self.snapshot())

    def adopt_average(self) -> None:
        """Go on with the running average as the weights, if one is kept."""
        self.weights.adopt_average()

    def renumber(self, version: int) -> None:
        """Say which version the weights are, where others took their place."""
        self.weights.follow(version)

    def save(self, folder: Path, *, with_optimiser: bool) -> None:
        """Write masters (and optimiser) into an existing folder."""
        self.weights.save(folder, with_optimiser=with_optimiser)

    def load(self, folder: Path) -> None:
        """Read what `save` wrote; the optimiser too where it is there."""
        self.weights.load(folder)

    def _packs(self, rows: Sequence[Row], num_together: int) -> Iterator[Pack]:
        """The rows' packs, and packs without rows until this rank has run as many as any other."""
        pieces = list(pack(rows, self._max_pack_tokens, num_together=num_together))
        num_idle = self._ranks.largest(len(pieces)) - len(pieces)
        yield from pieces
        for _ in range(num_idle):
            (nothing,) = pack([_NOTHING], 1)
            yield replace(nothing, row_indices=())

    def _forward(self, piece: Pack, temperature: float, top: Tensor | int | None = None) -> TokenStats:
        return self._run(
            piece.token_ids_T, piece.positions_T, piece.layout, piece.predictor_N, piece.target_ids_N, temperature, top
        )

    def _means(self, sums: Mapping[str, float], global_weight: float) -> dict[str, float]:
        """The ranks' sums as one: the loss over the global weight, metrics over the sum of the weights."""
        whole = self._ranks.total(sums)
        loss, weights = whole.pop("loss"), whole.pop("weights")
        return {"loss": loss / global_weight} | {name: value / weights for name, value in whole.items()}


@dataclass(frozen=True, slots=True)
class _Frozen:
    """A policy as it was."""

    policy: Policy
    snapshot: Snapshot

    def logprobs(self, rows: Sequence[Row], temperature: float) -> list[Tensor]:
        """See `Scorer`."""
        with self.policy.as_snapshot(self.snapshot):
            return self.policy.logprobs(rows, temperature)

    def top_tokens(self, rows: Sequence[Row], k: int, temperature: float) -> list[TopTokens]:
        """See `Scorer`."""
        with self.policy.as_snapshot(self.snapshot):
            return self.policy.top_tokens(rows, k, temperature)


def _measured(result: Loss, given: Streams, stats: TokenStats) -> dict[str, float]:
    entropy = (stats.entropies_N.detach() * given.weights_T).sum()
    sums = {"loss": result.total.detach(), "weights": given.weights_T.sum(), "entropy": entropy, **result.metrics}
    return {name: float(value) for name, value in sums.items()}


def _checked(metrics: dict[str, float]) -> dict[str, float]:
    if not all(math.isfinite(value) for value in metrics.values()):
        raise InvariantError(
            f"the loss or a metric is not finite: {metrics}; look at the batch's log-probabilities and rewards"
        )
    return metrics
