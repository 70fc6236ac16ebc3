"""The asynchronous loop over replicas: the bound on staleness, every prompt once whichever replica dies, replay."""

import os
import random
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from burnish.core.recipe import Recipe, RuntimeConfig
from burnish.engine.replicas import LivePublisher, ReplicaEngine, replica_config
from burnish.rollout.stream_log import Died, Event, Interrupted, Sampled, Turned
from burnish.runtime.carriers import MemoryCarrier
from burnish.stages.rl_replay import replay
from burnish.stages.session import Session
from tests.engine.test_replica_turns import Here
from tests.rollout.test_verifier_workers import descendants
from tests.stages.streams import ScriptedVerdicts, recipe, session_of, train
from tests.stages.test_asynchronous import BOUND, ages, assert_each_prompt_is_consumed_once, events_of
from tests.stages.test_runtime import kind_of


@contextmanager
def with_replicas(made: Recipe, runs: Path, seed: int) -> Iterator[Session]:
    """A session whose engine is two replicas in this process, which take their time."""
    with session_of(made, runs) as session:
        carrier, model = MemoryCarrier(), session.loaded.model
        config = replica_config(model, session.means.chat, max_rows=4, options={"path": "torch"})
        publisher = LivePublisher(model, lambda: session.policy.version, carrier)
        engine = ReplicaEngine(Here(seed), carrier, publisher, config, num_replicas=2, turn_s=0.01)
        session.means = replace(session.means, engine=engine)
        try:
            yield session
        finally:
            engine.close()


@pytest.mark.parametrize(
    ("seed", "in_flight"),
    [(1, "continue"), (2, "finish"), pytest.param(3, "continue", marks=pytest.mark.slow)],
)
def test_no_trained_token_is_older_than_the_bound_whatever_replicas_and_verdicts_take(
    seed: int, in_flight: str, tmp_path: Path
) -> None:
    made = recipe(num_steps=5, max_new_tokens=16, in_flight=in_flight)
    with with_replicas(made, tmp_path, seed) as session:
        train(session, ScriptedVerdicts(seed, most_looks=6))
    events = events_of(tmp_path)
    lags = ages(events)
    assert max(lags) <= BOUND
    assert min(lags) >= 0
    assert max(lags) > 0  # the engine did not wait for the learner
    is_mixed = {event.oldest_version != event.newest_version for event in events if isinstance(event, Sampled)}
    assert is_mixed == ({False} if in_flight == "finish" else {False, True})
    assert_each_prompt_is_consumed_once(tmp_path, num_steps=5)


def made_of_processes() -> Recipe:
    made = recipe(num_steps=6, max_new_tokens=24)
    return made.model_copy(update={"runtime": RuntimeConfig(engine_replicas=2)})


def kill_a_replica(runs: Path, num_events: int) -> threading.Thread:
    """Kill one once so many events more are in the ledger, so that it has drawn something in this process."""

    def count() -> int:
        with sqlite3.connect(f"file:{runs / 'stream' / 'ledger.sqlite'}?mode=ro", uri=True) as db:
            return db.execute("SELECT COUNT(*) FROM events").fetchone()[0]

    def kill() -> None:
        while count() < until:
            time.sleep(0.01)
        replicas = [pid for pid in descendants(os.getpid()) if kind_of(pid) == "engine"]
        os.kill(random.Random(4).choice(replicas), signal.SIGKILL)

    until = count() + num_events
    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    return thread


def kinds(events: list[Event]) -> set[type]:
    return {type(event) for event in events}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_over_replicas_that_die_and_a_driver_that_ends_is_repeated_bit_for_bit(tmp_path: Path) -> None:
    with session_of(made_of_processes(), tmp_path) as session:
        train(session, ScriptedVerdicts(1, most_looks=4), num_steps=3)
    with session_of(made_of_processes(), tmp_path, resume=True) as session:
        killing = kill_a_replica(tmp_path, 6)
        train(session, ScriptedVerdicts(2, most_looks=4))
        killing.join()
    events = events_of(tmp_path)
    assert {Turned, Died, Interrupted} <= kinds(events)
    assert max(ages(events)) <= BOUND
    assert_each_prompt_is_consumed_once(tmp_path, num_steps=6)
    (repeated,) = replay(tmp_path / "stream")
    assert repeated.is_equal
    assert repeated.num_steps == 6
