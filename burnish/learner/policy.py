"""The policy: one set of weights that the engine samples from and the learner updates.

Compute runs in the model's precision; the masters, gradients and optimiser state of what trains are
float32. A batch is gone through in packs; each pack's loss is a sum that is divided by the weight of
the *whole* batch, so that packing and accumulation change nothing.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import PreTrainedModel

from burnish.core.errors import InvariantError, RunFolderError
from burnish.learner.packing import Pack, Row, pack
from burnish.models.forward import TokenStats, hidden_states, token_stats
from burnish.objectives import Loss, Streams, aggregation

LossFunction = Callable[[Streams], Loss]
Snapshot = Mapping[str, Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimiserConfig:
    """AdamW, https://arxiv.org/abs/1711.05101."""

    beta1: float = 0.9
    beta2: float = 0.95
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0


class Batch(NamedTuple):
    """Rows of one update and how their tokens are weighed.

    `old_logprobs` has an entry a row: the proximal policy's, one a trained token; None means that the
    policy that is being differentiated is the proximal policy (the first update on fresh samples).
    """

    rows: Sequence[Row]
    aggregate: aggregation.Kind
    max_length: int
    temperature: float = 1.0
    old_logprobs: Sequence[Tensor] | None = None
    ref_logprobs: Sequence[Tensor] | None = None

    @property
    def global_weight(self) -> float:
        """What the sum of the losses is divided by."""
        return sum(aggregation.sequence_weight(self.aggregate, row.num_trained, self.max_length) for row in self.rows)


class Policy:
    """Weights with an integer version, their masters and their optimiser."""

    def __init__(
        self, model: PreTrainedModel, parameters: Mapping[str, nn.Parameter], *, max_pack_tokens: int = 2048
    ) -> None:
        self.model = model
        self.version = 0
        self._max_pack_tokens = max_pack_tokens
        self._parameters = dict(parameters)
        self.masters = {name: nn.Parameter(p.detach().float().clone()) for name, p in parameters.items()}
        self.reset_optimiser(OptimiserConfig())

    def reset_optimiser(self, config: OptimiserConfig) -> None:
        """Start a new stage: fresh moments, gradients zero."""
        self._config = config
        self._optimiser = torch.optim.AdamW(
            self.masters.values(),
            lr=0.0,
            betas=(config.beta1, config.beta2),
            eps=config.epsilon,
            weight_decay=config.weight_decay,
        )
        self._zero_gradients()

    def forward_backward(self, batch: Batch, loss: LossFunction) -> dict[str, float]:
        """Add the batch's gradient to the masters'; return the loss, and its metrics as means over tokens."""
        total, sum_of_weights = 0.0, 0.0
        sums: dict[str, float] = {}
        for piece in pack(batch.rows, self._max_pack_tokens):
            stats = self._forward(piece, batch.temperature)
            streams = self._streams(batch, piece, stats)
            result = loss(streams)
            (result.total / batch.global_weight).backward()
            self._move_gradients()
            total += float(result.total.detach()) / batch.global_weight
            sum_of_weights += float(streams.weights_T.sum())
            for name, value in _measured(result, streams, stats).items():
                sums[name] = sums.get(name, 0.0) + value
        metrics = {"loss": total} | {name: value / sum_of_weights for name, value in sums.items()}
        if not all(math.isfinite(value) for value in metrics.values()):
            raise InvariantError(
                f"the loss or a metric is not finite: {metrics}; look at the batch's log-probabilities and rewards"
            )
        return metrics

    @torch.no_grad()
    def optim_step(self, learning_rate: float) -> float:
        """Clip, update masters and weights, raise the version; return the gradient norm before clipping."""
        norm = nn.utils.clip_grad_norm_(self.masters.values(), self._config.max_grad_norm)
        if not torch.isfinite(norm):
            raise InvariantError("the gradient is not finite; the update was not made; look at the last batch")
        for group in self._optimiser.param_groups:
            group["lr"] = learning_rate
        self._optimiser.step()
        self._zero_gradients()
        self._publish(self.masters)
        self.version += 1
        return float(norm)

    @torch.no_grad()
    def logprobs(
        self, rows: Sequence[Row], temperature: float, *, within: AbstractContextManager[object] | None = None
    ) -> list[Tensor]:
        """Score the trained tokens of each row, by the forward that trains (`within`: for example the reference)."""
        scored: dict[int, Tensor] = {}
        with within or nullcontext():
            for piece in pack(rows, self._max_pack_tokens):
                logprobs_N = self._forward(piece, temperature).logprobs_N
                lengths = [rows[index].num_trained for index in piece.row_indices]
                scored.update(zip(piece.row_indices, logprobs_N.split(lengths), strict=True))
        return [scored[index] for index in range(len(rows))]

    def snapshot(self) -> Snapshot:
        """A copy of the masters as they are now, for example the reference of a KL penalty."""
        return {name: master.detach().clone() for name, master in self.masters.items()}

    @contextmanager
    def as_snapshot(self, snapshot: Snapshot) -> Iterator[None]:
        """Compute with other weights within the block."""
        self._publish(snapshot)
        try:
            yield
        finally:
            self._publish(self.masters)

    def save(self, folder: Path, *, with_optimiser: bool) -> None:
        """Write masters (and optimiser) into an existing folder."""
        try:
            save_file({name: master.detach() for name, master in self.masters.items()}, folder / "masters.safetensors")
            torch.save({"version": self.version}, folder / "policy.pt")
            if with_optimiser:
                torch.save(self._optimiser.state_dict(), folder / "optimiser.pt")
        except (OSError, RuntimeError, SafetensorError) as error:  # how the two libraries tell of a full disk
            raise RunFolderError(
                f"cannot write a checkpoint to {str(folder.parent)!r}: {error}; free disk space, then go on by --resume"
            ) from error

    @torch.no_grad()
    def load(self, folder: Path) -> None:
        """Read what `save` wrote; the optimiser too where it is there."""
        try:
            self._load(folder)
        except (OSError, RuntimeError, KeyError, EOFError, UnpicklingError, SafetensorError) as error:
            raise RunFolderError(
                f"cannot read the checkpoint {str(folder)!r}: {error}; if it is damaged, start again under another name"
            ) from error

    def _load(self, folder: Path) -> None:
        saved = load_file(folder / "masters.safetensors")
        assert saved.keys() == self.masters.keys(), "the checkpoint is of other parameters"
        for name, master in self.masters.items():
            master.copy_(saved[name])
        self.version = torch.load(folder / "policy.pt", weights_only=True)["version"]
        if (folder / "optimiser.pt").exists():
            self._optimiser.load_state_dict(torch.load(folder / "optimiser.pt", weights_only=True))
        self._zero_gradients()
        self._publish(self.masters)

    def _forward(self, piece: Pack, temperature: float) -> TokenStats:
        hidden_T_D = hidden_states(self.model, piece.token_ids_T, piece.positions_T, piece.layout)
        return token_stats(self.model, hidden_T_D[piece.predictor_N], piece.target_ids_N, temperature)

    def _streams(self, batch: Batch, piece: Pack, stats: TokenStats) -> Streams:
        rows = [batch.rows[index] for index in piece.row_indices]
        lengths = [row.num_trained for row in rows]
        repeats = torch.tensor(lengths)
        old_logprobs_N = _select(batch.old_logprobs, piece.row_indices)
        return Streams(
            new_logprobs_T=stats.logprobs_N,
            weights_T=aggregation.weigh(batch.aggregate, lengths, max_length=batch.max_length).weights_T,
            sequence_T=torch.arange(len(rows)).repeat_interleave(repeats),
            advantages_T=torch.tensor([row.advantage for row in rows]).repeat_interleave(repeats),
            old_logprobs_T=stats.logprobs_N.detach() if old_logprobs_N is None else old_logprobs_N,
            rollout_logprobs_T=_sampled_logprobs(rows),
            ref_logprobs_T=_select(batch.ref_logprobs, piece.row_indices),
        )

    def _move_gradients(self) -> None:
        for name, parameter in self._parameters.items():
            if parameter.grad is not None:
                gradient = self.masters[name].grad
                assert gradient is not None
                gradient.add_(parameter.grad)
                parameter.grad = None

    def _zero_gradients(self) -> None:
        for master in self.masters.values():
            master.grad = torch.zeros_like(master)

    @torch.no_grad()
    def _publish(self, weights: Mapping[str, Tensor]) -> None:
        for name, parameter in self._parameters.items():
            parameter.copy_(weights[name])


def _select(values: Sequence[Tensor] | None, indices: Sequence[int]) -> Tensor | None:
    return None if values is None else torch.cat([values[index] for index in indices])


def _sampled_logprobs(rows: Sequence[Row]) -> Tensor | None:
    def of(row: Row) -> Iterator[float]:
        assert row.rollout_logprobs is not None
        return (value for value, sampled in zip(row.rollout_logprobs, row.was_sampled, strict=True) if sampled)

    if any(row.rollout_logprobs is None for row in rows):
        return None
    return torch.tensor([value for row in rows for value in of(row)])


def _measured(result: Loss, streams: Streams, stats: TokenStats) -> dict[str, float]:
    entropy = (stats.entropies_N.detach() * streams.weights_T).sum()
    return {name: float(value) for name, value in {"entropy": entropy, **result.metrics}.items()}
