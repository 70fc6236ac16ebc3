"""Records of evaluations with given scores, for tests."""

from burnish.evals.records import EvalResult
from burnish.evals.runs import EvalRun


def results_of(scores, *, suite="s", source=""):
    """One result a reply; `scores` has a list of replies' scores for each task. None: not scored."""
    return tuple(
        EvalResult(
            task_id=f"{suite}/{index}", report_name=suite, source=source and f"{source}{index % 2}", score=score,
            kind="timeout" if score is None else "scored", reply=f"reply {sample}", sample=sample,
        )
        for index, group in enumerate(scores)
        for sample, score in enumerate(group)
    )  # fmt: skip


def run_of(scores, *, model="m", suite="s", **fields):
    given = {
        "model": model, "fingerprint": f"{model:0>64}", "suite": suite, "layer": "single_step", "suite_hash": "h" * 64,
        "harness": "v" * 64, "seed": 1, "samples": len(scores[0]), "temperature": 0.0, "began_s": 1e9, "wall_s": 2.0,
        "results": results_of(scores, suite=suite),
    }  # fmt: skip
    return EvalRun(**{**given, **fields})
