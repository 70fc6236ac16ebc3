"""Tasks of lm-evaluation-harness as suites: what is read of its samples, and what is said where it is missing."""

import importlib.util

import pytest

from burnish.core.errors import ConfigError
from burnish.evals.runs import Store
from burnish.stages.eval_models import open_model
from burnish.stages.lm_eval_suite import evaluate_task, first_filter, only_task, package, result_of

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


def test_a_task_is_known_by_the_name_that_it_was_evaluated_under_and_groups_are_refused():
    assert only_task("lm_eval:mine.yaml", {"mine": [SAMPLE]}) == ("mine", [SAMPLE])
    with pytest.raises(ConfigError, match=r"group of 2 tasks \(a, b\); name one"):
        only_task("lm_eval:both", {"b": [SAMPLE], "a": [SAMPLE]})


MINE = """
task: mine
dataset_path: json
dataset_kwargs: {data_files: {test: ROWS}}
test_split: test
output_type: OUTPUT
doc_to_text: "{{question}}"
doc_to_target: "{{answer}}"
"""
KINDS = {
    "generate_until": "generation_kwargs: {until: ['.'], max_gen_toks: 4}\nmetric_list: [{metric: exact_match}]\n",
    "multiple_choice": "doc_to_choice: [seven, nine]\nmetric_list: [{metric: acc}, {metric: acc_norm}]\n",
}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(importlib.util.find_spec("lm_eval") is None, reason="lm-eval is not installed")
@pytest.mark.parametrize("kind", KINDS)
def test_a_task_from_a_file_is_evaluated_by_the_package_itself(kind, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(f'{{"question": "{n}+{7 - n}=", "answer": "seven"}}\n' for n in range(3)))
    file = tmp_path / "mine.yaml"
    file.write_text(MINE.replace("ROWS", str(rows)).replace("OUTPUT", kind) + KINDS[kind])
    run = evaluate_task(open_model("tiny"), f"lm_eval:{file}", Store(tmp_path / "kept"), 2)
    assert (run.suite, len(run.results)) == ("lm_eval:mine", 2)
    assert {result.kind for result in run.results} == {"scored"}
    assert [result.task_id for result in run.results] == ["lm_eval:mine/0", "lm_eval:mine/1"]
    assert list(Store(tmp_path / "kept").of("tiny")) == ["lm_eval:mine"]


@pytest.mark.skipif(importlib.util.find_spec("lm_eval") is not None, reason="lm-eval is installed")
def test_without_the_package_it_is_said_how_to_get_it(tmp_path):
    with pytest.raises(ConfigError, match="need the package lm-eval, which is not installed; pip install lm-eval"):
        package()
    with pytest.raises(ConfigError, match="pip install lm-eval"):
        evaluate_task(None, "lm_eval:gsm8k", Store(tmp_path), 1)
