"""Repeat the asynchronous stages of a run from its ledger, and say whether the weights come out bit for bit.

What decided (clocks, verifiers, the scheduler) is not asked again: the events in the ledger say which member began at
which engine step, which verdict had come, what was trained on. Samples are drawn again and must be what was noted of
them; verdicts are those that were kept. Nothing in the run folder changes, and no sandbox is needed. What gates decided
is read as well: a roll-back goes to the weights that the repetition itself had then.

Covered: finished stages, and unfinished ones up to their newest checkpoint; runs that were killed and resumed. Not
covered: other machines or numbers of threads, where sums may be rounded otherwise; synchronous stages, which a
recipe repeats by itself.
"""

import hashlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from torch import Tensor

from burnish.core.errors import ConfigError, InvariantError, RunFolderError
from burnish.core.flight import Recorder
from burnish.core.ledger import Ledger
from burnish.core.metrics import MetricsLog
from burnish.core.recipe import Recipe
from burnish.core.run_folder import RunFolder, kept_recipe
from burnish.core.types import Task, Trajectory, Verdict
from burnish.data import trajectory_files
from burnish.domains import Domain, open_domain
from burnish.engine.local import LocalEngine
from burnish.engine.opening import opened
from burnish.engine.replicas import ReplicaEngine
from burnish.models.load import load
from burnish.rollout.attempts import Means
from burnish.rollout.collect import StepRollouts
from burnish.rollout.mixture import Source
from burnish.rollout.stream import Sample, Stream
from burnish.rollout.stream_episodes import Turn
from burnish.rollout.stream_log import (
    Accounted,
    Asked,
    Began,
    Cut,
    Died,
    Ended,
    Event,
    Interrupted,
    Judged,
    Key,
    Moment,
    Played,
    Said,
    Sampled,
    Trained,
    Turned,
    from_ledger,
    said,
    sampled,
)
from burnish.runtime.local import Background
from burnish.runtime.opening import open_runtime
from burnish.stages import training
from burnish.stages.check import StagePlugin, open_stages
from burnish.stages.guard_replay import GatesAgain
from burnish.stages.policy import opened_policy
from burnish.stages.rl_config import Config
from burnish.stages.rl_plan import Plan, make_plan
from burnish.stages.rl_replay_episodes import EpisodesAgain
from burnish.stages.rl_replay_turns import TurnsAgain
from burnish.stages.rl_trainer import Trainer, Versions, origin_of
from burnish.stages.session import Session, open_chat, set_threads

_REPLACED = Verdict.infrastructure_error("another attempt took its place")


class Parted(InvariantError):
    """The repetition does something else than the run did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """What came of repeating one stage."""

    stage: str
    num_steps: int
    num_samples: int
    kept_hash: str
    """Of the weights in the run folder."""
    hash: str
    """Of the weights that the repetition came to."""

    @property
    def is_equal(self) -> bool:
        """Whether the weights are the same, bit for bit."""
        return self.kept_hash == self.hash


def replay(run: Path) -> list[Repeated]:
    """Repeat each asynchronous stage of a run; `ConfigError` if there is none, `Parted` where it goes another way."""
    if not (run / "ledger.sqlite").exists():
        raise RunFolderError(f"no run in {str(run)!r}; give a run folder, for example runs/quickstart")
    recipe = kept_recipe(run)
    stages = open_stages(recipe)
    with _session(recipe, run) as session:
        repeated = list(_stages(session, stages))
    if not repeated:
        raise ConfigError(f"run {str(run)!r} has no stage 'rl' with max_staleness above 0 that has made a checkpoint")
    return repeated


def weights_hash(weights: Mapping[str, Tensor]) -> str:
    """Sha-256 over names, shapes and bits."""
    hashed = hashlib.sha256()
    for name in sorted(weights):
        values = weights[name].detach().cpu().contiguous()
        hashed.update(f"{name} {tuple(values.shape)} {values.dtype}".encode())
        hashed.update(values.numpy().tobytes())
    return hashed.hexdigest()


def _stages(session: Session, stages: Sequence[StagePlugin]) -> Iterator[Repeated]:
    for session.position, (_, config) in enumerate(stages):
        result = session.ledger.stage_result(session.position)
        if isinstance(config, Config) and config.max_staleness and session.ledger.events(session.position):
            num_steps = config.num_steps if result else training.newest_step(session)
            if num_steps:
                session.policy.load(session.folder.checkpoint(session.checkpoint))
                yield _repeat(session, config, num_steps, is_finished=result is not None)
        if result is None:
            return
        session.checkpoint = result.get("checkpoint", session.checkpoint)


def _repeat(session: Session, config: Config, num_steps: int, *, is_finished: bool) -> Repeated:
    plan = make_plan(session, config)
    session.policy.reset_optimiser(config.optimiser_config())
    with tempfile.TemporaryDirectory(prefix="burnish-replay-") as elsewhere:
        gates = GatesAgain(session.policy, plan.saved, plan.course, Path(elsewhere), averages=config.ema_decay > 0)
        repetition = _Repetition(session, config, plan, gates)
        repetition.go(num_steps)
        if is_finished:
            gates.finish(num_steps)
        repetition.close()
    if is_finished:
        session.policy.adopt_average()
    ours = weights_hash(session.policy.masters)
    name = session.stage_name if is_finished else training.step_name(session, num_steps)
    session.policy.load(session.folder.checkpoint(name))
    return Repeated(
        stage=session.stage_name, num_steps=num_steps, num_samples=repetition.num_samples,
        kept_hash=weights_hash(session.policy.masters), hash=ours,
    )  # fmt: skip


class _Repetition:
    """One stage, driven by its events."""

    def __init__(self, session: Session, config: Config, plan: Plan, gates: GatesAgain) -> None:
        self._session, self._gates = session, gates
        self._moments = from_ledger(session.ledger.events(session.position))
        versions = Versions()
        versions.begin(0, session.policy.version)
        self._trainer = Trainer(session, config, plan, versions)
        self._origin = origin_of(session, config, plan)
        engine = session.means.engine
        assert isinstance(engine, LocalEngine | ReplicaEngine)
        self._stream = Stream(engine, session.means.chat, self._origin)
        self._turns = TurnsAgain(engine, self._stream) if isinstance(engine, ReplicaEngine) else None
        self._records = _records(session)
        self._episodes = EpisodesAgain(self._stream, self._records)
        self._issued = session.ledger.issued(session.position)
        self.num_samples = 0

    def go(self, num_steps: int) -> None:
        """Repeat so many steps."""
        for moment in self._moments:
            finished = [] if self._turns else self._advance(moment)
            for event in moment.events:
                if isinstance(event, Sampled | Said):
                    self._compare(event, finished)
                    continue
                self._demand(not (self._turns and finished), f"more was finished before {event} than in the run")
                finished += self._apply(event)
                if isinstance(event, Trained):
                    if event.step + 1 == num_steps:
                        return
                    self._gate(event.step + 1)
            self._demand(not finished, f"engine step {moment.tick} finished more than the run's did")

    def close(self) -> None:
        """Leave the engine as the next stage expects it."""
        if self._turns:
            self._turns.close()

    def _advance(self, moment: Moment) -> list[Sample | Turn]:
        """Step the engine to the moment; what the last step finished is compared with its events."""
        finished: list[Sample | Turn] = []
        while self._stream.tick < moment.tick:
            self._demand(
                not finished,
                f"engine step {self._stream.tick} finished a sample, and the run's next was at {moment.tick}",
            )
            finished = self._stream.step()
        return finished

    def _compare(self, event: Sampled | Said, finished: list[Sample | Turn]) -> None:
        member = f"group {self._origin.group_id(event.key.number)}, member {event.key.member}"
        self._demand(bool(finished), f"{member} is not finished at engine step {self._stream.tick}, and was in the run")
        ours = self._noted(finished.pop(0))
        self._demand(ours.key == event.key, f"{member} is not the next to finish at engine step {self._stream.tick}")
        if ours != event:
            raise Parted(f"{member}, engine step {self._stream.tick}: {self._difference(event)}")
        self.num_samples += 1

    def _noted(self, one: Sample | Turn) -> Sampled | Said:
        """What the run would have noted of what was finished."""
        if isinstance(one, Sample):
            return sampled(one.key, one.trajectory)
        self._episodes.said(one)
        return said(*one)

    def _difference(self, event: Sampled | Said) -> str:
        """Where a sample is not what it was."""
        if isinstance(event, Said):
            return "a turn of its episode is another"
        kept = self._records.get((event.key.number, event.key.member))
        ours = self._stream.members(event.key.number)[event.key.member]
        if kept is None or kept.token_ids == ours.token_ids:
            return "the same tokens, with other log-probabilities or versions" if kept else "another sample"
        pairs = zip(ours.token_ids, kept.token_ids, strict=False)
        place = next((i for i, (one, other) in enumerate(pairs) if one != other), -1) - ours.prompt_length
        return f"the samples part at token {place}" if place >= 0 else "one sample is longer than the other"

    def _apply(self, event: Event) -> list[Sample | Turn]:
        """Do it again; returns what a replica finished in doing so."""
        match event:
            case Began(key):
                self._check_draw(key)
                self._episodes.begin(key)
                (self._turns or self._stream).begin(key)
            case Judged(key):
                self._stream.judge(key, self._verdict(key))
            case Asked():
                if self._turns:
                    raise ConfigError(
                        f"{self._session.stage_name}: its episodes were sampled by replicas, and those cannot be "
                        "repeated; a run that is to be repeated has no runtime.engine_replicas"
                    )
                self._episodes.ask(event)
            case Played(key):
                self._demand(
                    self._episodes.end(event),
                    f"the episode of group {self._origin.group_id(key.number)}, member {key.member}, has other tokens",
                )
            case Cut(key):
                (self._turns or self._stream).cut(key)
            case Ended(number):
                if number in self._stream.pending:
                    self._stream.end(number)
            case Trained():
                self._train(event)
            case Interrupted():
                (self._turns or self._stream).interrupt()
            case Turned() | Died():
                assert self._turns, "the recipe has replicas"
                return self._turns.apply(event)
            case Accounted():
                pass  # what the scheduler knew; nothing is decided here
            case Sampled() | Said():
                raise AssertionError("samples are compared, not applied")
        return []

    def _train(self, event: Trained) -> None:
        version = self._session.policy.version
        self._demand(version == event.version, f"step {event.step} began from version {event.version}, not {version}")
        groups = [self._stream.group(number, members) for number, members in event.groups]
        self._trainer.update(event.step, StepRollouts(groups, []))
        for number, _ in event.groups:
            self._stream.end(number)
        if self._turns:
            self._turns.learned()

    def _gate(self, step: int) -> None:
        """Put the weights in place that the run's gate after so many steps did."""
        if self._gates.after(step):
            self._trainer.versions.renumber(self._session.policy.version)
            if self._turns:
                self._turns.learned()

    def _verdict(self, key: Key) -> Verdict:
        record = self._records.get((key.number, key.member))
        return _REPLACED if record is None or record.verdict is None else record.verdict

    def _check_draw(self, key: Key) -> None:
        issued = self._issued[self._origin.group_id(key.number)]
        task = self._stream.draw(key.number).task
        self._demand(
            (task.id, task.prompt_hash) == issued,
            f"draw {key.number} is task {task.id!r} and not the run's {issued.task_id!r}, or its prompt is another: "
            "a domain, its data or burnish has changed since",
        )

    def _demand(self, holds: bool, otherwise: str) -> None:
        if not holds:
            raise Parted(f"{self._session.stage_name}: {otherwise}")


def _records(session: Session) -> dict[tuple[int, int], Trajectory]:
    """What was kept of each member: in files if its step has been settled, else in the ledger."""
    files = sorted((session.folder.path / "trajectories").glob(f"{session.stage_name}-step-*.parquet"))
    kept = [trajectory for file in files for trajectory in trajectory_files.read(file)]
    for group_id in session.ledger.issued(session.position):
        kept += session.ledger.rollouts(group_id)
    return {(int(one.group_id.split("/")[1]), one.member): one for one in kept}


@contextmanager
def _session(recipe: Recipe, run: Path) -> Iterator[Session]:
    """A session that reads the run and writes elsewhere."""
    set_threads(recipe.threads)
    with ExitStack() as stack:
        elsewhere = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="burnish-replay-")))
        folder = RunFolder.open(run, recipe, resume=True)
        stack.callback(folder.close)
        ledger = Ledger(run / "ledger.sqlite")
        stack.callback(ledger.close)
        sources = [Source(entry=entry, domain=open_domain(entry.domain, entry.options)) for entry in recipe.tasks]
        loaded = load(recipe.model.name, dtype=recipe.model.dtype)
        runtime = recipe.runtime.model_copy(update={"kind": "local", "address": ""})  # the same bits, on this host
        where = stack.enter_context(open_runtime(runtime))
        policy = stack.enter_context(opened_policy(recipe, loaded, where))
        chat = open_chat(loaded)
        opening = opened(recipe.engine, loaded.model, chat, lambda: policy.version, where, runtime)
        engine = stack.enter_context(opening)
        background = stack.enter_context(Background())
        yield Session(
            recipe=recipe, folder=folder, ledger=ledger, sources=sources, live_sources=sources, loaded=loaded,
            policy=policy, metrics=stack.enter_context(MetricsLog(elsewhere / "metrics.jsonl")),
            console=Console(quiet=True),
            means=Means(engine=engine, chat=chat, judge=_nobody, background=background), flight=Recorder(elsewhere),
        )  # fmt: skip


async def _nobody(domain: Domain, task: Task, reply: str) -> Verdict:
    raise AssertionError("verdicts come from the ledger")
