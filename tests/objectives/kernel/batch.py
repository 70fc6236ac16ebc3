"""The golden batch, as streams, and how numbers are compared."""

import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from burnish.objectives import Streams, aggregation, ops

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[2] / "golden" / "objectives.json").read_text())
TOLERANCE = 1e-5


class Batch(NamedTuple):
    streams: Streams
    global_weight: float


def rewards() -> Tensor:
    return double(GOLDEN["batch"]["rewards"])


def batch_of(kind: aggregation.Kind = "token_mean", sequences: Sequence[int] = (0, 1, 2, 3)) -> Batch:
    """The streams of chosen sequences of the golden batch, in that order."""
    rows = GOLDEN["batch"]
    lengths = [len(rows["logp_new"][i]) for i in sequences]
    weighed = aggregation.weigh(kind, lengths, max_length=rows["max_len"], dtype=torch.float64)
    scores_G = ops.center(rewards(), divide_by_std=True)
    sequence_T = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))

    def stream(name: str) -> Tensor:
        return flat([rows[name][i] for i in sequences])

    streams = Streams(
        new_logprobs_T=stream("logp_new").requires_grad_(),
        weights_T=weighed.weights_T,
        sequence_T=sequence_T,
        advantages_T=scores_G[torch.tensor(sequences)][sequence_T],
        old_logprobs_T=stream("logp_old"),
        rollout_logprobs_T=stream("logp_rollout"),
        ref_logprobs_T=stream("logp_ref"),
    )
    return Batch(streams, weighed.global_weight)


def one_token(ratio: float, advantage: float) -> Streams:
    """A single token whose probability has changed by a ratio, against the proximal policy and the sampler."""
    old = double([-1.0])
    return Streams(
        new_logprobs_T=(old + double([ratio]).log()).requires_grad_(),
        old_logprobs_T=old,
        rollout_logprobs_T=old,
        advantages_T=double([advantage]),
        weights_T=double([1.0]),
        sequence_T=torch.zeros(1, dtype=torch.int64),
    )


def double(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def flat(nested: list[list[float]]) -> Tensor:
    return double(list(chain.from_iterable(nested)))


def close(actual: Any, expected: Any) -> bool:
    """Whether two numbers or tensors agree to the golden file's tolerance."""
    a, e = (torch.as_tensor(value, dtype=torch.float64).detach() for value in (actual, expected))
    return a.shape == e.shape and torch.allclose(a, e, rtol=0, atol=TOLERANCE)


def gradient(total: Tensor, streams: Streams) -> Tensor:
    (found_T,) = torch.autograd.grad(total, streams.new_logprobs_T)
    return found_T
