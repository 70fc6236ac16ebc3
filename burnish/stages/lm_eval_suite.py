"""`--suite lm_eval:NAME`: a task of lm-evaluation-harness, by that package's own prompts, metrics and code.

NAME is a task that the package has, or the path of a task's YAML file, which is then known by its own `task`.

The one door to `lm_eval`, which is no dependency of ours: it is used where it is installed. The model runs in its
`hf` backend with transformers' own attention, so that nothing of our engine is in the number. Each document is one
result, whose score is the first of `METRICS` that the task has and whose parts are the others in [0, 1]; `burnish
compare` pairs them as any other. Tried with version 0.4.13, on generation and multiple choice from files. Known: most
tasks fetch their data from a hub; `limit` takes the first documents, in their order. Not covered: models behind an
endpoint (give them to `lm_eval` itself), tasks in groups, code-running tasks.
"""

import importlib
import time
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from burnish.core.errors import ConfigError
from burnish.core.types import sha256_json
from burnish.evals.records import EvalResult
from burnish.evals.runs import EvalRun, Store, harness_version
from burnish.evals.suites import LM_EVAL
from burnish.models.attention import IMPLEMENTATION
from burnish.stages.eval_models import Candidate, LocalModel

METRICS = ("exact_match", "acc", "f1", "em", "contains", "acc_norm")
BATCH_SIZE = 8


def package() -> ModuleType:
    """Import the package; `ConfigError` says how to install it."""
    try:
        return importlib.import_module("lm_eval")
    except ModuleNotFoundError as error:
        if error.name != "lm_eval":
            raise
        raise ConfigError(
            "suites lm_eval:NAME need the package lm-eval, which is not installed; pip install lm-eval, or choose a "
            "suite of `burnish suites list`"
        ) from None


def evaluate_task(candidate: Candidate, word: str, store: Store, num: int | None) -> EvalRun:
    """Evaluate a model on a task and keep the record."""
    harness = package()
    if not isinstance(candidate, LocalModel):
        raise ConfigError(f"suite {word!r} evaluates models whose weights are here; {candidate.name!r} is an endpoint")
    began_s = time.time()
    found = _run(harness, candidate, word.removeprefix(LM_EVAL), num)
    task, samples = only_task(word, found["samples"])
    run = EvalRun(
        model=candidate.name, fingerprint=candidate.fingerprint, suite=f"{LM_EVAL}{task}", layer="regression",
        suite_hash=_hash(task, samples, str(found.get("versions", {}).get(task))), harness=harness_version(), seed=0,
        samples=1, temperature=0.0, results=tuple(result_of(task, sample) for sample in samples), began_s=began_s,
        wall_s=time.time() - began_s,
    )  # fmt: skip
    store.keep(run)
    return run


def _run(harness: ModuleType, candidate: LocalModel, task: str, num: int | None) -> Mapping[str, Any]:
    """Lend the model to the package, with attention that pads."""
    backend = importlib.import_module("lm_eval.models.huggingface")
    model = candidate.loaded.model
    model.set_attn_implementation("sdpa")
    try:
        lent = backend.HFLM(pretrained=model, tokenizer=candidate.loaded.tokenizer, batch_size=BATCH_SIZE)
        return harness.simple_evaluate(
            model=lent, tasks=[task], limit=num, bootstrap_iters=0, apply_chat_template=True, log_samples=True,
            task_manager=_tasks(task),
        )  # fmt: skip
    except KeyError as error:
        raise ConfigError(f"lm-eval knows no task {task!r} ({error}); `lm-eval ls tasks` lists them") from None
    finally:
        model.set_attn_implementation(IMPLEMENTATION)


def _tasks(task: str) -> Any:
    """What the package looks for the task in: of a file, not its own index, which is of thousands of files."""
    manager = importlib.import_module("lm_eval.tasks").TaskManager
    return manager(include_defaults=not task.endswith((".yaml", ".yml")))


def only_task(word: str, samples: Mapping[str, Any]) -> tuple[str, list[Mapping[str, Any]]]:
    """The name of the one task that was evaluated, and its documents."""
    if len(samples) != 1:
        raise ConfigError(f"suite {word!r} is a group of {len(samples)} tasks ({', '.join(sorted(samples))}); name one")
    ((task, found),) = samples.items()
    return task, first_filter(found)


def first_filter(samples: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Each document once: a task with several filters (strict, flexible) lists it under each."""
    return [sample for sample in samples if sample.get("filter") == samples[0].get("filter")]


def result_of(task: str, sample: Mapping[str, Any]) -> EvalResult:
    """One of its documents as a result of ours; without a metric that is a score it is unscorable."""
    numbers = {name: float(sample[name]) for name in METRICS if isinstance(sample.get(name), int | float)}
    parts = {name: value for name, value in numbers.items() if 0 <= value <= 1}
    score = next(iter(parts.values()), None)
    return EvalResult(
        task_id=f"{LM_EVAL}{task}/{sample['doc_id']}", report_name=f"{LM_EVAL}{task}", source="", score=score,
        kind="unscorable" if score is None else "scored", reply=str(sample.get("filtered_resps", "")), parts=parts,
        evidence=f"target {str(sample.get('target', ''))[:200]}",
    )  # fmt: skip


def _hash(task: str, samples: Sequence[Mapping[str, Any]], version: str) -> str:
    """What was asked: the task, its version and the documents and prompts."""
    return sha256_json([task, version, [[str(s.get("doc_hash")), str(s.get("prompt_hash"))] for s in samples]])
