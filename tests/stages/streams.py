"""A stage `rl` of the tiny model whose verdicts come when a seed says so, with no verifier and no sleep."""

import random
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from burnish.core.recipe import Recipe
from burnish.core.types import Verdict
from burnish.rollout.mixture import Draw
from burnish.rollout.stream_log import Key
from burnish.rollout.stream_verdicts import Arrived, Verdicts
from burnish.stages import rl, training
from burnish.stages.rl_config import Config
from burnish.stages.rl_plan import make_plan
from burnish.stages.rl_stream import asynchronous_steps
from burnish.stages.session import Session, open_session

Score = Callable[[Key, str], Verdict]


def by_reply(key: Key, reply: str) -> Verdict:
    """A random model's replies differ, so half of them are right."""
    return Verdict.scored(zlib.crc32(reply.encode()) % 2)


@dataclass
class ScriptedVerdicts:
    """See `Verdicts`: each verdict comes after a random number of looks."""

    seed: int
    most_looks: int = 40
    score: Score = by_reply
    waiting: dict[Key, tuple[int, Verdict]] = field(default_factory=dict)
    num_looks: int = 0

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    @property
    def num_asked(self) -> int:
        return len(self.waiting)

    def ask(self, key: Key, draw: Draw, reply: str) -> None:
        self.waiting[key] = (self.num_looks + self._random.randint(1, self.most_looks), self.score(key, reply))

    def drop(self, key: Key) -> None:
        self.waiting.pop(key, None)

    def take(self, wait_s: float = 0.0) -> list[Arrived]:
        self.num_looks += 1
        if wait_s and self.waiting:
            self.num_looks = max(self.num_looks, min(due for due, _ in self.waiting.values()))
        come = sorted((due, key) for key, (due, _) in self.waiting.items() if due <= self.num_looks)
        return [Arrived(key, self.waiting.pop(key)[1], 0.0) for _, key in come]


@dataclass
class LateVerdicts:
    """The verdicts of another, which come once something was heard or after so many waits in vain."""

    verdicts: ScriptedVerdicts
    heard: threading.Event = field(default_factory=threading.Event)
    num_waits: int = 30

    @property
    def num_asked(self) -> int:
        return self.verdicts.num_asked

    def ask(self, key: Key, draw: Draw, reply: str) -> None:
        self.verdicts.ask(key, draw, reply)

    def drop(self, key: Key) -> None:
        self.verdicts.drop(key)

    def take(self, wait_s: float = 0.0) -> list[Arrived]:
        if self.heard.is_set() or not self.num_waits:
            return self.verdicts.take(wait_s)
        self.num_waits -= wait_s > 0
        self.heard.wait(wait_s)
        return []


class Clock:
    """A second passes at each look."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 1.0
        return self.now_s


def recipe(**options: Any) -> Recipe:
    stage = {
        "use": "rl", "num_steps": 5, "prompts_per_step": 2, "group_size": 3, "max_staleness": 2, "max_new_tokens": 6,
        "learning_rate": 1e-3, "checkpoint_every": 2,
    }  # fmt: skip
    return Recipe.model_validate(
        {
            "name": "stream", "seed": 3, "threads": 1, "model": {"name": "tiny"}, "engine": {"max_rows": 8},
            "tasks": [{"domain": "arithmetic", "num_eval": 2}], "stages": [stage | options],
        }
    )  # fmt: skip


@contextmanager
def session_of(made: Recipe, runs: Path, *, resume: bool = False) -> Iterator[Session]:
    with open_session(made, runs, resume=resume, console=Console(quiet=True)) as session:
        yield session


def config_of(made: Recipe) -> Config:
    return Config.model_validate({key: value for key, value in made.stages[0].items() if key != "use"})


class Killed(Exception):
    """The run ends here."""


def train(session: Session, verdicts: Verdicts, *, num_steps: int | None = None) -> None:
    """The stage as `rl.run` runs it; after `num_steps` steps the process ends."""
    config = config_of(session.recipe)
    plan = make_plan(session, config)
    session.policy.reset_optimiser(config.optimiser_config())
    first = training.resume(session, plan.saved)
    if first:
        session.ledger.commit_steps(session.position, first - 1)
    plan.course.restore(first)
    steps = asynchronous_steps(session, config, plan, first, verdicts=verdicts, clock=Clock())
    for step, _ in enumerate(steps, start=first):
        if step + 1 == num_steps:
            return
        if (step + 1) % config.checkpoint_every == 0 or step + 1 == config.num_steps:
            training.settle(session, step, plan.saved)
    session.ledger.finish_stage(session.position, session.stage_name, training.finish(session))


__all__ = ["Clock", "ScriptedVerdicts", "by_reply", "config_of", "recipe", "rl", "session_of", "train"]
