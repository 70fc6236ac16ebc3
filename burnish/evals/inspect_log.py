"""An evaluation as a log that `inspect view` opens: the JSON form of inspect-ai's `EvalLog`, version 2.

    inspect view --log-dir ~/.cache/burnish/evals/logs

Written from its schema (https://inspect.aisi.org.uk/reference/inspect_ai.log.html); the package is not needed. A
reply is a sample whose epoch is its number; the verdict is the score of a scorer named `verdict`, its parts and
evidence are the score's metadata and explanation, and a verdict that is not scored is the score `N` of no answer.
Headline metrics are the mean over tasks with its standard error from the 95 % interval; the log is no source for
`burnish compare`. Covered: one turn; several replies a task. Not covered: tool calls as records, costs.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from burnish import __version__
from burnish.core.interval import Interval
from burnish.core.run_folder import write_whole
from burnish.core.types import Json, StopReason, Task
from burnish.evals.records import EvalResult, summarise
from burnish.evals.runs import EvalRun
from burnish.evals.samples import averaged, pass_rates
from burnish.evals.statistics import Z_95
from burnish.evals.suites import OpenSuite

STOP_REASONS: Mapping[StopReason, str] = {"eos": "stop", "stop_string": "stop", "length": "max_tokens"}


def keep_log(run: EvalRun, opened: OpenSuite, folder: Path) -> Path:
    """Write the log of an evaluation under a name that `inspect view` lists; returns where it lies."""
    folder.mkdir(parents=True, exist_ok=True)
    when = datetime.fromtimestamp(run.began_s, UTC).strftime("%Y-%m-%dT%H-%M-%S+00-00")
    path = folder / f"{when}_{run.suite.replace(' ', '-').replace('/', '-')}_{run.key[:22]}.json"
    text = json.dumps(log_of(run, {draw.task.id: draw.task for draw in opened.draws}))
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    return path


def log_of(run: EvalRun, tasks: Mapping[str, Task]) -> dict[str, Json]:
    """The log as plain JSON."""
    began = datetime.fromtimestamp(run.began_s, UTC).isoformat()
    ended = datetime.fromtimestamp(run.began_s + run.wall_s, UTC).isoformat()
    drawing: dict[str, Json] = {"temperature": run.temperature, "top_p": run.top_p, "seed": run.seed}
    return {
        "version": 2,
        "status": "success",
        "eval": {
            "eval_id": run.key[:22],
            "run_id": run.key[22:44],
            "created": began,
            "task": run.suite,
            "task_id": run.suite_hash[:22],
            "task_attribs": {"layer": run.layer},
            "dataset": {"name": run.suite, "samples": len(tasks), "sample_ids": list(tasks)},
            "model": run.model,
            "model_generate_config": drawing,
            "config": {"epochs": run.samples},
            "packages": {"burnish": __version__},
            "metadata": {"suite_hash": run.suite_hash, "harness": run.harness, "fingerprint": run.fingerprint},
        },
        "plan": {"name": "plan", "steps": [{"solver": "generate", "params": {}}], "config": drawing},
        "results": {
            "total_samples": len(run.results),
            "completed_samples": len(run.results),
            "scores": _scores(run.results),
        },
        "stats": {"started_at": began, "completed_at": ended, "model_usage": {run.model: _usage(run.results)}},
        "samples": [_sample(run, tasks[result.task_id], result) for result in run.results],
    }


def _usage(results: Sequence[EvalResult]) -> dict[str, Json]:
    num = sum(result.num_tokens for result in results)
    return {"input_tokens": 0, "output_tokens": num, "total_tokens": num}


def _scores(results: Sequence[EvalResult]) -> list[Json]:
    rates = {name: _metric(name, rate) for name, rate in pass_rates(results).items()}
    return [
        {
            "name": name,
            "scorer": "verdict",
            "metrics": {"mean": _metric("mean", value.mean), "stderr": _metric("stderr", _stderr(value)), **rates},
        }
        for name, value in summarise(averaged(results)).items()
    ]


def _metric(name: str, value: float) -> dict[str, Json]:
    return {"name": name, "value": value}


def _stderr(value: Interval) -> float:
    return (value.high - value.low) / (2 * Z_95)


def _sample(run: EvalRun, task: Task, result: EvalResult) -> dict[str, Json]:
    prompt: list[Json] = [{"role": message.role, "content": message.content} for message in task.messages]
    reply: dict[str, Json] = {"role": "assistant", "content": result.reply, "source": "generate", "model": run.model}
    return {
        "id": task.id,
        "epoch": result.sample + 1,
        "input": prompt,
        "target": task.gold or json.dumps(dict(task.truth), ensure_ascii=False),
        "messages": [*prompt, reply],
        "output": {
            "model": run.model,
            "choices": [{"message": reply, "stop_reason": STOP_REASONS[result.stop_reason]}],
            "usage": _usage([result]),
        },
        "scores": {
            "verdict": {
                "value": "N" if result.score is None else result.score,
                "answer": result.reply,
                "explanation": result.evidence or result.kind,
                "metadata": {"kind": result.kind, "parts": dict(result.parts)},
            }
        },
        "metadata": {"domain": task.domain, "source": task.source, "tags": list(task.tags)},
        "model_usage": {run.model: _usage([result])},
    }
