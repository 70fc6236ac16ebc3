"""The golden batch, as streams."""

import json
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from burnish.objectives import Streams, aggregation, ops

GOLDEN = Path(__file__).parents[1] / "golden" / "objectives.json"
TOLERANCE = 1e-5


class Batch(NamedTuple):
    streams: Streams
    global_weight: float


BatchOf = Callable[..., Batch]


@pytest.fixture(scope="session")
def golden() -> dict[str, Any]:
    return json.loads(GOLDEN.read_text())


@pytest.fixture(scope="session", name="rewards_G")
def golden_rewards(golden) -> Tensor:
    return torch.tensor(golden["batch"]["rewards"], dtype=torch.float64)


@pytest.fixture
def batch_of(golden, rewards_G: Tensor) -> BatchOf:
    """Build the streams of chosen sequences of the golden batch, in that order."""
    rows = golden["batch"]
    scores_G = ops.center(rewards_G, divide_by_std=True).tolist()

    def build(kind: aggregation.Kind = "token_mean", sequences: Sequence[int] = (0, 1, 2, 3)) -> Batch:
        lengths = [len(rows["logp_new"][i]) for i in sequences]
        weighed = aggregation.weigh(kind, lengths, max_length=rows["max_len"], dtype=torch.float64)

        def stream(name: str) -> Tensor:
            return torch.tensor(list(chain.from_iterable(rows[name][i] for i in sequences)), dtype=torch.float64)

        streams = Streams(
            new_logprobs_T=stream("logp_new").requires_grad_(),
            weights_T=weighed.weights_T,
            sequence_T=torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths)),
            advantages_T=torch.tensor(
                [scores_G[i] for i, n in zip(sequences, lengths, strict=True) for _ in range(n)], dtype=torch.float64
            ),
            old_logprobs_T=stream("logp_old"),
            rollout_logprobs_T=stream("logp_rollout"),
            ref_logprobs_T=stream("logp_ref"),
        )
        return Batch(streams, weighed.global_weight)

    return build


@pytest.fixture(scope="session")
def flat() -> Callable[[list[list[float]]], Tensor]:
    return lambda nested: torch.tensor(list(chain.from_iterable(nested)), dtype=torch.float64)


@pytest.fixture(scope="session")
def close() -> Callable[[Any, Any], bool]:
    """Whether two numbers or tensors agree to the golden file's tolerance."""

    def agree(actual: Any, expected: Any) -> bool:
        a, e = torch.as_tensor(actual, dtype=torch.float64), torch.as_tensor(expected, dtype=torch.float64)
        return a.shape == e.shape and torch.allclose(a, e, rtol=0, atol=TOLERANCE)

    return agree
