"""Supervised fine-tuning on demonstrations of the task sources: their `gold`, or episodes of their oracles."""

import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from pydantic import Field

from burnish.core.errors import ConfigError
from burnish.core.types import Trajectory
from burnish.data import trajectory_files
from burnish.domains import Domain, HasEnvironment
from burnish.learner.packing import Row
from burnish.learner.policy import Batch
from burnish.objectives import sft
from burnish.rollout.demonstrations import demonstrated, group_of
from burnish.rollout.mixture import Draw, Mixture
from burnish.stages import training
from burnish.stages.order import epochs
from burnish.stages.progress import progress_bar
from burnish.stages.session import Session
from burnish.stages.updates import Updates

TRAINS = True

_NUM_LOOKED_AT = 64


class Lessons(Updates):
    """How demonstrations are learned, whoever made them."""

    num_epochs: int = Field(1, ge=1)
    batch_size: int = Field(16, ge=1)
    """Demonstrations an update."""
    checkpoint_every: int = Field(20, ge=1)
    """Updates between checkpoints."""


class Config(Lessons):
    """Options of the stage."""

    num_examples: int = Field(ge=1)
    """Distinct demonstrations, over all sources by their weights."""


def check_ranks(config: Config) -> None:
    """`ConfigError` for what a learner of several ranks cannot do."""
    config.check_ranks()


def run(session: Session, config: Config) -> dict[str, Any]:
    """Train on the demonstrations; resumes after the last checkpoint."""
    return learn(session, config, demonstrations(session, config.num_examples))


def learn(session: Session, config: Lessons, rows: Sequence[Row]) -> dict[str, Any]:
    """Train on these rows; resumes after the last checkpoint."""
    batches = epochs(range(len(rows)), config.num_epochs, config.batch_size, session.train_seed)
    session.policy.reset_optimiser(config.optimiser_config())
    first = training.resume(session)
    with progress_bar(session.console) as progress:
        bar = progress.add_task("learn", total=len(batches), completed=first, note="")
        for step in range(first, len(batches)):
            loss = _update(session, config, [rows[index] for index in batches[step]], step, len(batches))
            progress.update(bar, advance=1, note=f"loss {loss:.3f}")
            if (step + 1) % config.checkpoint_every == 0:
                training.save(session, step + 1)
    return training.finish(session)


def _update(session: Session, config: Lessons, rows: Sequence[Row], step: int, num_steps: int) -> float:
    started = time.monotonic()
    metrics = session.policy.forward_backward(
        Batch(rows=rows, aggregate=sft.AGGREGATION, max_length=1), partial(sft.loss, config=sft.Config())
    )
    rate = config.rate(step, num_steps)
    norm = session.policy.optim_step(rate)
    session.metrics.log(
        step, session.stage_name, **metrics, grad_norm=norm, learning_rate=rate, train_s=time.monotonic() - started,
        tokens_trained=sum(row.num_trained for row in rows),
    )  # fmt: skip
    session.heartbeat()
    return metrics["loss"]


def demonstrations(session: Session, num: int) -> list[Row]:
    """Draw `num` tasks and show their correct replies."""
    return shown(session, taught(session), range(num))


def taught(session: Session) -> Mixture:
    """The tasks of the sources that know correct replies."""
    teachers = [source for source in session.sources if _knows_replies(source.domain, session.train_seed)]
    if not teachers:
        raise ConfigError(
            f"{session.stage_name}: no source of the recipe knows correct replies (gold); leave the stage out, or add "
            "a source that does"
        )
    return Mixture(teachers, seed=session.train_seed, exclude=session.held_out_prompts())


def _knows_replies(domain: Domain, seed: int) -> bool:
    """Whether some of the first tasks have one: a file's rows need not all."""
    size = domain.size("train")
    num = _NUM_LOOKED_AT if size is None else min(size, _NUM_LOOKED_AT)
    tasks = (domain.task("train", seed, index) for index in range(num))
    if isinstance(domain, HasEnvironment):
        return any(domain.oracle(task) is not None for task in tasks)
    return any(task.gold is not None for task in tasks)


def shown(session: Session, mixture: Mixture, numbers: Iterable[int]) -> list[Row]:
    """The correct replies to these draws, or episodes of their oracles, less tasks without one."""
    draws = [mixture.draw(number) for number in numbers]
    episodes = _episodes(session, [draw for draw in draws if isinstance(draw.source.domain, HasEnvironment)])
    rows: list[Row] = []
    for draw in draws:
        if (episode := episodes.get(group_of(draw))) is not None:
            rows.append(Row(token_ids=episode.token_ids, was_sampled=episode.was_sampled))
        elif draw.task.gold is not None:
            shown_ids = session.means.chat.demonstration(draw.task.messages, draw.task.gold)
            rows.append(Row(token_ids=shown_ids.token_ids, was_sampled=shown_ids.was_sampled))
    return rows


def _episodes(session: Session, draws: Sequence[Draw]) -> Mapping[str, Trajectory]:
    """The oracles' episodes, by draw; played once, and kept for a run that goes on."""
    if not draws:
        return {}
    path = session.folder.path / f"{session.stage_name}.demonstrations.parquet"
    kept = {one.group_id: one for one in trajectory_files.read(path)} if path.exists() else {}
    missing = [draw for draw in draws if group_of(draw) not in kept]
    if missing:
        with progress_bar(session.console) as progress:
            bar = progress.add_task("oracles", total=len(missing), note="")
            for episode in demonstrated(session.means, missing):
                kept[episode.group_id] = episode
                progress.advance(bar)
        if not kept:
            raise ConfigError(f"{session.stage_name}: no oracle solved its task; see `burnish tasks check`")
        trajectory_files.write(path, list(kept.values()))
    return kept
