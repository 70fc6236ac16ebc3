"""What trains against what evaluates: recipes, runs and files, as a command and as a stage."""

import json

import pytest
from rich.console import Console

from burnish.core.config import validate
from burnish.core.errors import ConfigError
from burnish.core.recipe import Recipe, TaskEntry
from burnish.evals.suites import Suite
from burnish.stages.contamination import indexed, only_evaluates, search
from burnish.stages.eval_suite import open_suite
from burnish.stages.train_texts import of_recipe, training_texts

QUIET = Console(quiet=True)
PLANTED = (
    "Ada walks along the northern quay of the old harbour and counts {n} green boats before breakfast every single day"
)


def suite_file(folder, name, num=4):
    rows = [{"input": PLANTED.format(n=n), "outputs": [f"{n} boats in all"]} for n in range(100, 100 + num)]
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Suite(name=name, tasks=[TaskEntry(domain=f"rows:{path}", options={"format": "ruler"})])


def index_of(*suites):
    return indexed([open_suite(suite, "", None, QUIET) for suite in suites])


def jsonl_recipe(folder, prompts):
    path = folder / "train.jsonl"
    rows = [{"prompt": prompt, "truth": str(n), "source": f"s{n}"} for n, prompt in enumerate(prompts)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    tasks = [{"domain": f"jsonl:{path}", "options": {"verifier": "exact"}}]
    return validate(Recipe, {"name": "r", "tasks": tasks, "stages": [{"use": "sft", "num_examples": 1}]}, "r")


def test_a_training_prompt_that_stands_in_a_suite_is_found_with_its_item(tmp_path):
    index = index_of(suite_file(tmp_path, "boats"))
    recipe = jsonl_recipe(tmp_path, [f"{n} plain questions about nothing" for n in range(30)])
    assert search(index, of_recipe(recipe, 10)).overlaps == []
    spoiled = jsonl_recipe(tmp_path, [f"{n}: {PLANTED.format(n=102)}" for n in range(30)])
    (first, *_) = search(index, of_recipe(spoiled, 10)).overlaps
    assert (first.suite, first.kind) == ("boats", "13 words")
    assert first.item.endswith("/eval/" + first.item.split("/")[-2] + "/" + first.item.split("/")[-1])


def test_of_a_source_without_end_so_many_tasks_are_looked_at_for_each_stage_that_trains():
    stages = [{"use": "evaluate"}, {"use": "sft", "num_examples": 1}, {"use": "sft", "num_examples": 1}]
    tasks = [{"domain": "arithmetic", "options": {"largest": 10**6}}]
    texts = list(of_recipe(validate(Recipe, {"name": "r", "tasks": tasks, "stages": stages}, "r"), 5))
    assert len(texts) == 2 * 5 * 2  # stages, tasks, a prompt and a correct reply
    assert len({text.text for text in texts}) == 20


def test_suites_that_only_evaluate_come_first_in_the_index(tmp_path):
    sums = Suite(name="sums", tasks=[TaskEntry(domain="arithmetic", num_eval=3)])
    boats = suite_file(tmp_path, "boats")
    assert list(index_of(sums, boats).num_items) == ["boats", "sums"]
    assert [only_evaluates(open_suite(suite, "", None, QUIET)) for suite in (sums, boats)] == [False, True]


def test_every_text_of_a_row_and_every_paragraph_of_a_file_is_looked_at(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"x": ["one", {"y": "two"}], "n": 3}\n\n"three"\n')
    (tmp_path / "b.txt").write_text("four\nstill four\n\nfive\n")
    assert [text.text for text in training_texts(tmp_path / "a.jsonl", 1)] == ["one", "two", "three"]
    assert [text.text for text in training_texts(tmp_path / "b.txt", 1)] == ["four\nstill four", "five\n"]


def test_what_is_neither_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="is no run folder; give a recipe"):
        list(training_texts(tmp_path, 1))
    (tmp_path / "c.jsonl").write_text("{")
    with pytest.raises(ConfigError, match=r"c\.jsonl:1: no JSON"):
        list(training_texts(tmp_path / "c.jsonl", 1))
