"""Evaluate on held-out tasks: one greedy reply each, the same tasks at each evaluation of a run."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from rich.console import Console

from burnish.core.config import Strict
from burnish.core.interval import Interval
from burnish.core.seeds import derive
from burnish.core.types import Json
from burnish.domains import HasEnvironment
from burnish.engine.types import SamplingParams
from burnish.evals.records import EvalResult, summarise
from burnish.rollout.attempts import NO_LIMIT, Attempt, Done, Means, make_attempts
from burnish.rollout.episode_metrics import mean_parts
from burnish.rollout.mixture import Draw, held_out
from burnish.stages.progress import progress_bar
from burnish.stages.session import BASE_CHECKPOINT, Session
from burnish.stages.terminal import styled

_CHUNK_ROUNDS = 4  # so many times what the engine decodes at once, so that places that come free are taken


class Config(Strict):
    """There is nothing to choose: the tasks are the recipe's, `num_eval` of each entry."""


def run(session: Session, config: Config) -> dict[str, Any]:
    """Evaluate the policy as it stands; finished tasks are kept, and not done again on resume."""
    draws = held_out(session.sources, session.eval_seed)
    kept = session.ledger.evals(session.position)
    label = _label(session)
    started = time.monotonic()
    with progress_bar(session.console) as progress:
        bar = progress.add_task(f"evaluate {label}", total=len(draws), completed=len(kept), note="")
        for chunk in _chunks(draws, _CHUNK_ROUNDS * session.recipe.engine.max_rows):
            if all(draw.task.id in kept for draw in chunk):
                continue
            rows: list[tuple[str, Json]] = []
            for draw, done in evaluate(session.means, chunk, session.eval_seed):
                rows.append((draw.task.id, result_json(result_of(draw, done), done)))
                progress.advance(bar)
            session.ledger.record_evals(session.position, rows)
            session.heartbeat()
    payloads = session.ledger.evals(session.position).values()
    session.metrics.truncate_after(session.stage_name, -1)
    num_tokens = sum(payload["num_tokens"] for payload in payloads)
    measured = {"tokens_sampled": num_tokens, "evaluate_s": time.monotonic() - started}
    results = results_at(session, session.position)
    several = [source for source in session.sources if isinstance(source.domain, HasEnvironment)]
    parts = {
        f"{name}/{part}": value
        for name in {source.entry.report_name for source in several}
        for part, value in mean_parts([each.parts for each in results if each.report_name == name]).items()
    }
    session.metrics.log(0, session.stage_name, **measured, **parts, **session.means.verify_metrics())
    summary = summarise(results)
    _print_summary(session.console, label, summary)
    return {
        "label": label,
        "evaluated": session.checkpoint,
        "summary": {name: list(value) for name, value in summary.items()},
    }


def evaluate(means: Means, draws: Sequence[Draw], seed: int) -> Iterator[tuple[Draw, Done]]:
    """Sample and judge one greedy reply to each task."""
    params = SamplingParams(temperature=0.0, max_new_tokens=NO_LIMIT)
    attempts = [
        Attempt(group_id=draw.task.id, draw=draw, seed=derive(seed, draw.task.id), num_samples=1, params=params)
        for draw in draws
    ]
    for done in make_attempts(means, attempts, lambda group_id, member: False):
        yield done.attempt.draw, done


def result_of(draw: Draw, done: Done) -> EvalResult:
    """The record of one evaluated task."""
    verdict = done.trajectory.verdict
    assert verdict is not None
    return EvalResult(
        task_id=draw.task.id, report_name=draw.source.entry.report_name, source=draw.task.source, score=verdict.score,
        kind=verdict.kind, reply=done.trajectory.reply, parts=verdict.parts, stop_reason=done.trajectory.stop_reason,
    )  # fmt: skip


def results_at(session: Session, position: int) -> list[EvalResult]:
    """The results that an evaluation of this run has left."""
    return [kept_result(payload) for payload in session.ledger.evals(position).values()]


def result_json(result: EvalResult, done: Done) -> dict[str, Json]:
    """A result as the ledger keeps it."""
    plain = asdict(replace(result, parts=dict(result.parts)))
    steps: list[Json] = [asdict(step) for step in done.trajectory.steps]
    return {**plain, "num_tokens": done.trajectory.num_sampled, **({"steps": steps} if steps else {})}


def kept_result(payload: Mapping[str, Any]) -> EvalResult:
    """A result that the ledger has kept."""
    fields = EvalResult.__dataclass_fields__
    return EvalResult(**{name: value for name, value in payload.items() if name in fields})


def _label(session: Session) -> str:
    if session.checkpoint == BASE_CHECKPOINT:
        return "before"
    use = session.checkpoint.partition("-")[2]
    is_alone = sum(stage["use"] == use for stage in session.recipe.stages) == 1
    return f"after {use if is_alone else session.checkpoint}"


def _chunks(draws: Sequence[Draw], size: int) -> Iterator[Sequence[Draw]]:
    """What is sampled, recorded and, on resume, done again together."""
    for start in range(0, len(draws), size):
        yield draws[start : start + size]


def _print_summary(console: Console, label: str, summary: Mapping[str, Interval]) -> None:
    for name, (mean, low, high, n) in summary.items():
        numbers = f" {mean:.3f} (95 % {low:.3f} to {high:.3f}, {n} tasks)"
        console.print(styled(f"  {label}: ", (name, "bold"), numbers))
