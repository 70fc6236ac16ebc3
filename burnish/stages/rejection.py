"""Rejection sampling: the policy tries training tasks, and learns its own tries that solved them.

RFT, https://arxiv.org/abs/2308.01825, section 3.3: sample several solutions a task, keep distinct right ones, fine-tune
on them. A try is a reply, or an episode of several turns with all that was said in between.

Decisions:
- A try is kept if its outcome is whole (`demonstrations.is_solved`); of one task the best scored first, so that where
  habits are paid too, those that have them are learned. `keep_per_task` bounds what easy tasks can fill the data with.
- Where RFT fine-tunes the untrained model on all that it has, this stage goes on from the weights that tried.
- What was tried is kept in the run's trajectories, of any outcome, by rounds of so many tasks as the engine decodes at
  once; a run that goes on tries no round twice. A task of which no try is right teaches nothing.
Not covered: several rounds of trying and learning in one stage; a recipe names the stage again.
"""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic import Field

from burnish.core.errors import ConfigError
from burnish.core.seeds import derive
from burnish.core.types import Trajectory
from burnish.data import trajectory_files
from burnish.engine.types import SamplingParams
from burnish.learner.packing import Row
from burnish.rollout.attempts import NO_LIMIT, Attempt, make_attempts
from burnish.rollout.demonstrations import is_solved
from burnish.rollout.episode_metrics import episode_metrics
from burnish.rollout.mixture import Draw, Mixture
from burnish.stages import sft, training
from burnish.stages.progress import progress_bar
from burnish.stages.session import Session

TRAINS = True


class Config(sft.Lessons):
    """Options of the stage."""

    num_tasks: int = Field(ge=1)
    """Training tasks that are tried, over all sources by their weights."""
    num_samples: int = Field(4, ge=1)
    """Tries at each."""
    keep_per_task: int = Field(2, ge=1)
    """At most so many of them are learned."""
    temperature: float = Field(1.0, gt=0)


def check_ranks(config: Config) -> None:
    """`ConfigError` for what a learner of several ranks cannot do."""
    config.check_ranks()


def run(session: Session, config: Config) -> dict[str, Any]:
    """Try, choose, learn; resumes after the last round of tries, or the last checkpoint."""
    tried = _tried(session, config)
    chosen = [one for tries in _by_task(tried) for one in best(tries, config.keep_per_task)]
    solved = sum(map(is_solved, tried))
    told = f"{solved} of {len(tried)} tries solved their task; {len(chosen)} are learned"
    session.console.print(f"{session.stage_name}: {told}", style="dim")
    if not chosen:
        raise ConfigError(
            f"{session.stage_name}: no try solved its task, so that nothing can be learned; put sft before, take "
            "easier tasks, or raise num_samples or num_tasks"
        )
    rows = [Row(token_ids=one.token_ids, was_sampled=one.was_sampled) for one in chosen]
    return sft.learn(session, config, rows) | {"num_tried": len(tried), "num_solved": solved, "num_kept": len(chosen)}


def best(tries: Sequence[Trajectory], most: int) -> list[Trajectory]:
    """The tries at one task that are learned: solved, distinct, best scored first."""
    distinct = {one.token_ids: one for one in reversed(tries) if is_solved(one)}
    return sorted(distinct.values(), key=_score, reverse=True)[:most]


def _score(one: Trajectory) -> float:
    assert one.verdict is not None and one.verdict.score is not None, "a try that solved its task has a score"
    return one.verdict.score


def _by_task(tried: Sequence[Trajectory]) -> list[list[Trajectory]]:
    """In the order in which tasks were drawn, whatever order tries ended in."""
    tasks: dict[str, list[Trajectory]] = {}
    for one in sorted(tried, key=lambda one: (one.group_id, one.member)):
        tasks.setdefault(one.group_id, []).append(one)
    return list(tasks.values())


def _tried(session: Session, config: Config) -> list[Trajectory]:
    """All tries, by the policy as it was when the stage began."""
    mixture = Mixture(session.sources, seed=session.train_seed, exclude=session.held_out_prompts())
    tried: list[Trajectory] = []
    started = time.monotonic()
    with progress_bar(session.console) as progress:
        bar = progress.add_task("try", total=config.num_tasks * config.num_samples, note="")
        for path, numbers in _rounds(session, config):
            if not path.exists():
                draws = [mixture.draw(number) for number in numbers]
                trajectory_files.write(path, _try(session, config, draws))
                session.heartbeat()
            tried += trajectory_files.read(path)
            progress.update(bar, completed=len(tried))
    if training.newest_step(session) == 0:
        _log(session, tried, time.monotonic() - started)
    return tried


def _rounds(session: Session, config: Config) -> Iterator[tuple[Path, range]]:
    """The file of each round, and which draws it tries."""
    size = max(1, session.recipe.engine.max_rows // config.num_samples)
    for number, start in enumerate(range(0, config.num_tasks, size)):
        path = session.folder.path / "trajectories" / f"{session.stage_name}-tries-{number:05d}.parquet"
        yield path, range(start, min(start + size, config.num_tasks))


def _try(session: Session, config: Config, draws: Sequence[Draw]) -> list[Trajectory]:
    params = SamplingParams(temperature=config.temperature, max_new_tokens=NO_LIMIT)
    attempts = [
        Attempt(group_id, draw, derive(session.train_seed, group_id), config.num_samples, params)
        for draw in draws
        for group_id in [f"{session.position}/{draw.number:07d}"]
    ]
    return [done.trajectory for done in make_attempts(session.means, attempts, lambda group, member: False)]


def _log(session: Session, tried: Sequence[Trajectory], try_s: float) -> None:
    name = f"{session.stage_name}.tries"
    session.metrics.truncate_after(name, -1)
    scored = [one for one in tried if one.verdict is not None and one.verdict.score is not None]
    shares = {"solved": fmean(map(is_solved, tried)), "scored": len(scored) / len(tried)}
    tokens_sampled = sum(one.num_sampled for one in tried)
    session.metrics.log(0, name, **shares, **episode_metrics(tried), try_s=try_s, tokens_sampled=tokens_sampled)
