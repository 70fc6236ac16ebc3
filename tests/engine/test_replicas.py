"""Replicas sample what the live model would, follow it bit by bit, and one that dies changes nothing."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch

from burnish.core.errors import EngineError
from burnish.engine.local import open_engine
from burnish.engine.params import SamplingParams
from burnish.engine.replica import Replica, without_weights
from burnish.engine.replicas import LivePublisher, ReplicaEngine, replica_config
from burnish.engine.types import Event, Finished, Request
from burnish.learner.policy import Policy
from burnish.models.lora import add_lora, trainable
from burnish.models.parameters import named_tensors
from burnish.objectives import dapo
from burnish.runtime.carriers import MemoryCarrier
from burnish.runtime.local import Local
from tests.fakes import random_model, tiny_chat
from tests.learner.test_sharding import batch
from tests.runtime.jobs import pid

OPTIONS = {"path": "torch", "exact": True}
REQUESTS = [
    Request(prompt_ids=(5, 6, 7 + n), seed=n, num_samples=2, params=SamplingParams(max_new_tokens=6, temperature=0.8))
    for n in range(3)
]


def adapted_model() -> Any:
    model = random_model("qwen3")
    add_lora(model, rank=2, alpha=4, targets="all-linear", seed=1)
    return model


@contextmanager
def replicas(model: Any, versions: list[int], num_replicas: int) -> Iterator[ReplicaEngine]:
    carrier = MemoryCarrier()
    engine = ReplicaEngine(
        Local(), carrier, LivePublisher(model, lambda: versions[-1], carrier),
        replica_config(model, tiny_chat(), max_rows=4, options=OPTIONS), num_replicas=num_replicas,
    )  # fmt: skip
    try:
        yield engine
    finally:
        engine.close()


def drawn(engine: Any) -> list[Finished]:
    return sorted(engine.sample(REQUESTS), key=lambda finished: finished[:2])


def test_a_model_without_its_weights_has_its_shapes_ties_and_adapters() -> None:
    model = adapted_model()
    data = without_weights(model)
    assert len(data) < sum(tensor.nbytes for tensor in named_tensors(model).values()) / 2
    replica = Replica(replica_config(model, tiny_chat(), max_rows=1, options={}))
    copy = replica._model
    assert {n: (t.shape, t.dtype) for n, t in named_tensors(copy).items()} == {
        n: (t.shape, t.dtype) for n, t in named_tensors(model).items()
    }
    assert copy.get_output_embeddings().weight is copy.get_input_embeddings().weight
    with pytest.raises(EngineError, match="this replica has weights of a broken update"):
        replica.sample(REQUESTS, "any")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_replicas_draw_what_the_live_model_draws_before_and_after_updates_and_a_death() -> None:
    model, versions = adapted_model(), [0]
    here = open_engine(model, tiny_chat(), max_rows=4, version=lambda: versions[-1], options=OPTIONS)
    with replicas(model, versions, 2) as engine:
        before = drawn(engine)
        assert before == drawn(here)
        with torch.no_grad():
            for parameter in trainable(model).values():
                parameter += 0.3
        versions.append(1)
        after = drawn(engine)
        assert after == drawn(here)
        assert after != before
        assert {version for finished in after for version in finished.completion.versions} == {1}
        numbers = [engine.submit(replace(request, num_samples=1)) for request in REQUESTS]
        engine.cancel(numbers[1])
        events: list[Event] = []
        while len(events) < 2:
            events += engine.step()
        wanted = [one._replace(request=numbers[one.request]) for one in after if one.request != 1 and not one.sample]
        assert sorted(events, key=lambda event: event[:2]) == wanted
        victim = engine._pool.each(pid)[0]
        os.kill(victim, signal.SIGKILL)
        assert drawn(engine) == after
        assert engine._pool.each(pid)[0] != victim
        assert engine.num_lost == 1


def test_only_adapters_go_over_after_they_have_moved() -> None:
    model, versions = adapted_model(), [0]
    publisher = LivePublisher(model, lambda: versions[-1], MemoryCarrier())
    first = publisher.publish()
    assert first
    assert publisher.publish() is None
    with torch.no_grad():
        for parameter in trainable(model).values():
            parameter += 0.3
    second = publisher.publish()
    assert second
    assert {piece.name for piece in second.pieces} == trainable(model).keys()
    assert second.base == first.fingerprint
    versions.append(1)
    third = publisher.publish()
    assert third
    assert (third.pieces, third.version, third.fingerprint) == ((), 1, second.fingerprint)


def test_what_an_optimiser_has_moved_goes_over() -> None:
    model = adapted_model()
    policy = Policy(model, trainable(model))
    publisher = LivePublisher(model, lambda: policy.version, MemoryCarrier())
    publisher.publish()
    policy.forward_backward(batch(0, None), lambda streams: dapo.loss(streams, dapo.Config()))
    policy.optim_step(1e-2)
    update = publisher.publish()
    assert update
    moved = {name for name in trainable(model) if name.endswith(".up")}  # at 0 at first, so `down` has no gradient yet
    assert {piece.name for piece in update.pieces} == moved
