"""Evaluate a model on a suite, or find what was kept of it; the record and its log are written at the end."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from burnish.core.errors import ConfigError
from burnish.core.run_folder import kept_recipe
from burnish.evals.records import EvalResult
from burnish.evals.runs import EvalRun, Store, harness_version
from burnish.evals.suites import OpenSuite, Suite, drawn
from burnish.stages.eval_models import Candidate, Replied, run_of
from burnish.stages.progress import progress_bar
from burnish.stages.session import open_sources
from burnish.stages.trained_on import trained_prompts


class Evaluated(NamedTuple):
    """A record, the tasks that it is of, and whether it was kept from an earlier evaluation."""

    run: EvalRun
    opened: OpenSuite
    was_kept: bool


def open_suite(suite: Suite, model: str, num: int | None, console: Console) -> OpenSuite:
    """Open a suite's domains and draw its tasks; `ConfigError` if the model's run trained on what it holds out."""
    sources = open_sources(suite.tasks, suite.sandbox, console)
    run = trained_by(Path(model))
    if run is None:
        return drawn(suite, sources, num)
    _refuse_seen_domains(suite, run)
    return drawn(suite, sources, num, trained_prompts(run))


def trained_by(path: Path) -> Path | None:
    """The run that made a model folder: one that it is a checkpoint of, or whose `final` it is."""
    is_final = (path.parent / "recipe.resolved.json").is_file()
    return run_of(path) or (path.parent if is_final else None)


def _refuse_seen_domains(suite: Suite, run: Path) -> None:
    seen = {entry.domain for entry in kept_recipe(run).tasks} & {entry.domain for entry in suite.tasks}
    if suite.held_out and seen:
        raise ConfigError(
            f"suite {suite.name!r} holds out {', '.join(sorted(seen))}, and the run {str(run)!r} has tasks of it; "
            "evaluate that model on another suite"
        )


def evaluate_suite(
    candidate: Candidate, suite: Suite, console: Console, *, num: int | None = None, fresh: bool = False,
    store: Store | None = None,
) -> Evaluated:  # fmt: skip
    """Evaluate, unless the same question to the same model was answered before (`fresh` asks anew)."""
    store = store or Store()
    opened = open_suite(suite, candidate.name, num, console)
    if not fresh and (kept := store.find(candidate.fingerprint, opened.content_hash, harness_version())):
        return Evaluated(kept, opened, was_kept=True)
    began_s = time.time()
    results = tuple(_results(candidate, opened, console))
    run = EvalRun(
        model=candidate.name, fingerprint=candidate.fingerprint, suite=suite.name, layer=suite.layer,
        suite_hash=opened.content_hash, harness=harness_version(), seed=suite.seed, samples=suite.samples,
        temperature=suite.temperature, top_p=suite.top_p, results=results, began_s=began_s,
        wall_s=time.time() - began_s,
    )  # fmt: skip
    store.keep(run)
    return Evaluated(run, opened, was_kept=False)


def _results(candidate: Candidate, opened: OpenSuite, console: Console) -> Sequence[EvalResult]:
    """One result a reply, in the order of tasks and samples."""
    found: list[tuple[int, EvalResult]] = []
    with progress_bar(console) as progress:
        total = len(opened.draws) * opened.suite.samples
        bar = progress.add_task(opened.suite.name, total=total, note=candidate.name)
        for replied in candidate.replies(opened, console):
            found.append((replied.draw.number, result_of_reply(replied)))
            progress.advance(bar)
    return [result for _, result in sorted(found, key=lambda each: (each[0], each[1].sample))]


def result_of_reply(replied: Replied) -> EvalResult:
    """The record of a judged reply."""
    draw, verdict = replied.draw, replied.verdict
    return EvalResult(
        task_id=draw.task.id, report_name=draw.source.entry.report_name, source=draw.task.source, score=verdict.score,
        kind=verdict.kind, reply=replied.reply, parts=dict(verdict.parts), stop_reason=replied.stop_reason,
        sample=replied.sample, num_tokens=replied.num_tokens, evidence=verdict.evidence,
    )  # fmt: skip
