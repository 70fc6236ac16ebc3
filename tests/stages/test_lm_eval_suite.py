"""Tasks of lm-evaluation-harness as suites: what is read of its samples, and what is said where it is missing."""

import importlib.util

import pytest

from burnish.core.errors import ConfigError
from burnish.evals.runs import Store
from burnish.stages.lm_eval_suite import evaluate_task, first_filter, package, result_of

SAMPLE = {"doc_id": 3, "doc_hash": "d", "prompt_hash": "p", "target": "7", "filtered_resps": ["7"], "filter": "strict"}


def test_the_first_known_metric_is_the_score_and_the_others_are_parts():
    result = result_of("gsm8k", {**SAMPLE, "acc": 1.0, "exact_match": 0.0, "perplexity": 31.5})
    assert (result.task_id, result.score, dict(result.parts)) == (
        "lm_eval:gsm8k/3",
        0.0,
        {"exact_match": 0.0, "acc": 1.0},
    )


def test_a_document_without_a_score_is_unscorable():
    assert result_of("wikitext", {**SAMPLE, "word_perplexity": (1.0, 2)}).kind == "unscorable"


def test_a_document_counts_once_whatever_filters_a_task_has():
    assert first_filter([SAMPLE, {**SAMPLE, "filter": "flexible"}, {**SAMPLE, "doc_id": 4}]) == [
        SAMPLE,
        {**SAMPLE, "doc_id": 4},
    ]


@pytest.mark.skipif(importlib.util.find_spec("lm_eval") is not None, reason="lm-eval is installed")
def test_without_the_package_it_is_said_how_to_get_it(tmp_path):
    with pytest.raises(ConfigError, match="need the package lm-eval, which is not installed; pip install lm-eval"):
        package()
    with pytest.raises(ConfigError, match="pip install lm-eval"):
        evaluate_task(None, "lm_eval:gsm8k", Store(tmp_path), 1)
