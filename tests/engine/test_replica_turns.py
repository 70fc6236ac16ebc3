"""Replicas in live use: requests join, weights reach what is under way, and the log is enough to do it all again."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import torch

from burnish.core.errors import ConfigError
from burnish.engine.params import SamplingParams
from burnish.engine.replica_turns import Applied, Entry, Lost, Turns
from burnish.engine.replicas import LivePublisher, ReplicaEngine, replica_config
from burnish.engine.types import Finished, Request
from burnish.models.lora import add_lora, trainable
from burnish.runtime.carriers import MemoryCarrier
from burnish.runtime.types import CPU, Needs
from burnish.runtime.workers import Opening, WorkerLost
from tests.fakes import random_model, tiny_chat

REQUESTS = {
    number: Request(
        prompt_ids=(5, 6, 7 + number), seed=number, params=SamplingParams(max_new_tokens=12 + number, temperature=0.8)
    )
    for number in range(1, 9)
}


class Seat:
    """A worker in this process, which takes its time and dies when it is told to."""

    def __init__(self, name: str, opening: Opening[Any], numbers: random.Random) -> None:
        self.name, self.is_alive, self._numbers = name, True, numbers
        self._stack = ExitStack()
        self._state = self._stack.enter_context(opening())

    def call(self, work: Any, *, timeout_s: float | None = None) -> Any:
        time.sleep(self._numbers.uniform(0, 0.01))
        if not self.is_alive:
            raise WorkerLost(f"{self.name} dies, as the test wants it")
        return work(self._state)

    def stop(self, *, at_once: bool = False) -> None:
        self._stack.close()


class Here:
    """A runtime of such workers."""

    host = "127.0.0.1"

    def __init__(self, seed: int) -> None:
        self._numbers = random.Random(seed)
        self.seats: dict[int, Seat] = {}

    def crew(
        self, name: str, opening: Callable[[int], Opening[Any]], num_workers: int, needs: Needs = CPU, *,
        is_packed: bool = False,
    ) -> Callable[[int], Any]:  # fmt: skip
        def start(number: int) -> Seat:
            self.seats[number] = Seat(f"{name}-{number}", opening(number), self._numbers)
            return self.seats[number]

        return start

    def close(self) -> None: ...


class Learner:
    """A model that moves."""

    def __init__(self) -> None:
        self.model = random_model("llama")
        add_lora(self.model, rank=2, alpha=4, targets="all-linear", seed=1)
        self.version = 0

    @torch.no_grad()
    def move(self) -> None:
        for parameter in trainable(self.model).values():
            parameter += 0.1
        self.version += 1


@contextmanager
def replicas(host: Here, learner: Learner) -> Iterator[ReplicaEngine]:
    carrier = MemoryCarrier()
    publisher = LivePublisher(learner.model, lambda: learner.version, carrier)
    config = replica_config(learner.model, tiny_chat(), max_rows=2, options={"path": "torch"}, num_threads=1)
    engine = ReplicaEngine(host, carrier, publisher, config, num_replicas=2, turn_s=0.004)
    try:
        yield engine
    finally:
        engine.close()


def drawn(host: Here, learner: Learner, *, kills: bool) -> list[Entry]:
    """All requests, while weights move twice; replica 1 dies between."""
    log: list[Entry] = []
    with replicas(host, learner) as engine:
        left = set(REQUESTS)
        for request in REQUESTS.values():
            assert engine.submit(request) in left
        engine.cancel(2)
        left.discard(2)
        while left:
            left -= {event.request for event in engine.step()}
            log += engine.take_log()
            if len(left) < 7 - 2 * learner.version and learner.version < 2:
                learner.move()
                engine.bring()
                host.seats[1].is_alive = not kills or learner.version != 1
        assert engine.num_waiting == 0
        assert engine.num_lost == int(kills)
    return log


def finished(log: list[Entry]) -> list[Finished]:
    return [each for entry in log if isinstance(entry, Applied) for each in entry.finished]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_replicas_drew_while_weights_moved_and_one_died_is_drawn_again_from_their_log(seed: int) -> None:
    torch.set_num_threads(1)
    log = drawn(Here(seed), Learner(), kills=True)
    samples = finished(log)
    assert {each.request for each in samples} == set(REQUESTS) - {2}
    spans = [set(each.completion.versions) for each in samples]
    assert max(map(len, spans)) > 1  # new weights have reached samples under way
    assert set().union(*spans) == {0, 1, 2}
    assert sum(isinstance(entry, Lost) for entry in log) == 1

    learner, updates, again = Learner(), {}, list[Finished]()
    with replicas(Here(seed + 10), learner) as engine:
        repeated = engine.repeated()
        for _ in range(2):
            learner.move()
            update = engine.published()
            assert update is not None
            updates[learner.version] = update
        for entry in log:
            if isinstance(entry, Lost):
                repeated.begin_anew(entry.replica)
            else:
                again += repeated.apply(entry, REQUESTS, updates)
    assert [each for each in again if each.request != 2] == samples


def test_samples_are_asked_for_once_live_use_is_over() -> None:
    learner = Learner()
    with replicas(Here(1), learner) as engine:
        number = engine.submit(REQUESTS[1])
        with pytest.raises(ConfigError, match="the engine is in live use"):
            next(engine.sample([REQUESTS[1]]))
        engine.cancel(number)
        (one,) = engine.sample([REQUESTS[1]])
        assert set(one.completion.versions) == {0}
        learner.move()
        (one,) = engine.sample([REQUESTS[1]])
        assert set(one.completion.versions) == {1}


def test_nothing_is_heard_later_of_live_use_that_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The turn that cancels comes back behind a look, and before it is asked whether all is quiet."""
    look = Turns.wait

    def late(self: Turns, *given: float) -> list[Entry]:
        heard = look(self, *given)
        time.sleep(0.2)
        return heard

    with replicas(Here(2), Learner()) as engine:
        engine.submit(REQUESTS[1])
        while not engine.step():
            pass
        engine.take_log()
        engine.cancel(engine.submit(REQUESTS[2]))
        monkeypatch.setattr(Turns, "wait", late)
        assert list(engine.sample([])) == []
        assert engine.step() == []
        assert engine.take_log() == []
