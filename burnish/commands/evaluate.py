"""`burnish eval`: evaluate models on suites, and print tables or JSON."""

import json
from collections.abc import Mapping, Sequence

import typer
from rich.table import Table

from burnish.core.interval import Interval
from burnish.core.types import Json
from burnish.evals.inspect_log import keep_log
from burnish.evals.records import not_scored, summarise
from burnish.evals.runs import EvalRun, Store
from burnish.evals.samples import averaged, measures, pass_rates, variances
from burnish.evals.suites import LM_EVAL, Suite
from burnish.stages.eval_models import open_model
from burnish.stages.eval_suite import evaluate_suite
from burnish.stages.lm_eval_suite import evaluate_task, package
from burnish.stages.terminal import terminal


def evaluate_command(
    suites: Mapping[str, Sequence[Suite]], words: Sequence[str], *, num: int | None, api_key_env: str, fresh: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Evaluate each model on its suites, and on the tasks of lm-evaluation-harness; print what came of it."""
    console, store = terminal(stderr=True), Store()
    if any(word.startswith(LM_EVAL) for word in words):
        package()
    reports: list[Json] = []
    for model, of_model in suites.items():
        candidate = open_model(model, api_key_env)
        for word in (word for word in words if word.startswith(LM_EVAL)):
            run = evaluate_task(candidate, word, store, num)
            if as_json:
                reports.append(report(run, was_kept=False, log=""))
            else:
                terminal().print(table(run, was_kept=False))
        for suite in of_model:
            done = evaluate_suite(candidate, suite, console, num=num, fresh=fresh, store=store)
            log = keep_log(done.run, done.opened, store.folder / "logs")
            if as_json:
                reports.append(report(done.run, was_kept=done.was_kept, log=str(log)))
            else:
                terminal().print(table(done.run, was_kept=done.was_kept))
    if as_json:
        typer.echo(json.dumps(reports, indent=2, ensure_ascii=False))


def report(run: EvalRun, *, was_kept: bool, log: str) -> dict[str, Json]:
    """All numbers of an evaluation, for machines."""
    one_each = averaged(run.results)
    apart = variances(run.results)
    return {
        "model": run.model,
        "fingerprint": run.fingerprint,
        "suite": run.suite,
        "layer": run.layer,
        "suite_hash": run.suite_hash,
        "harness": run.harness,
        "seed": run.seed,
        "samples": run.samples,
        "was_kept": was_kept,
        "wall_s": run.wall_s,
        "tokens": sum(result.num_tokens for result in run.results),
        "domains": {
            name: {**value._asdict(), "not_scored": dict(not_scored(run.results)[name])}
            for name, value in summarise(one_each).items()
        },
        "pass": dict(pass_rates(run.results)),
        "variance": None if apart is None else {"between_tasks": apart.between, "within_tasks": apart.within},
        "measures": {name: value._asdict() for name, value in measures(run.results).items()},
        "log": log,
    }


def table(run: EvalRun, *, was_kept: bool) -> Table:
    """An evaluation as a person reads it."""
    shown = Table(title=f"{run.model} on {run.suite} ({run.layer}){', kept from before' if was_kept else ''}")
    for heading in ("", "mean", "95 % interval", "tasks"):
        shown.add_column(heading, justify="right" if heading else "left")
    _add(shown, summarise(averaged(run.results)))
    shown.add_section()
    for name, rate in pass_rates(run.results).items() if run.samples > 1 else ():
        shown.add_row(name, f"{rate:.3f}", "", "")
    _add(shown, measures(run.results))
    for name, kinds in not_scored(run.results).items():
        for kind, count in kinds.items():
            shown.add_row(f"{name}: {kind}", "", "", str(count))
    return shown


def _add(shown: Table, rows: Mapping[str, Interval]) -> None:
    for name, (mean, low, high, n) in rows.items():
        shown.add_row(name, f"{mean:.3f}", f"{low:.3f} to {high:.3f}", str(n))
