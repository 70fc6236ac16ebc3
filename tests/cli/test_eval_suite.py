"""`burnish eval`, `compare` and `suites`: what they evaluate on, what they keep, what they say."""

import json
import re

import pytest

from burnish.commands.suites import USUAL, suite_for
from burnish.core.config import validate
from burnish.core.recipe import Recipe

RECIPE = {"name": "r", "tasks": [{"domain": "rg:gcd", "num_eval": 7}], "stages": [{"use": "sft"}]}


@pytest.mark.parametrize("model", ["final", "checkpoints/step-3", "."])
def test_a_model_in_a_run_folder_is_evaluated_on_the_runs_tasks(tmp_path, model):
    recipe = validate(Recipe, RECIPE, "r.toml")
    (tmp_path / "recipe.resolved.json").write_text(recipe.model_dump_json())
    assert suite_for(tmp_path / model).tasks == recipe.tasks


def test_any_other_model_is_evaluated_on_the_usual_tasks(tmp_path):
    assert suite_for(tmp_path / "model") == USUAL


def test_a_domain_that_only_evaluates_says_so_where_training_tasks_are_wanted(burnish, refusal):
    assert "has no tasks in train; it only evaluates: --split eval" in refusal("tasks", "sample", "errands")
    assert "=== errands/eval/1/0" in burnish("tasks", "sample", "errands", "--split", "eval", "--n", 1).stdout


def suite(folder, **fields):
    path = folder / "sums.toml"
    lines = [f"{key} = {json.dumps(value)}" for key, value in fields.items()]
    path.write_text("\n".join([*lines, "[[tasks]]", 'domain = "arithmetic"', "num_eval = 20"]))
    return path


@pytest.fixture
def kept(tmp_path, monkeypatch):
    monkeypatch.setenv("BURNISH_CACHE", str(tmp_path / "cache"))


def test_two_models_are_evaluated_and_compared(burnish, tmp_path, kept):
    done = burnish("eval", "tiny", "--suite", suite(tmp_path), "--json")
    (report,) = json.loads(done.stdout)
    assert (report["suite"], report["domains"]["arithmetic"]["n"], report["was_kept"]) == ("sums", 20, False)
    compared = burnish("compare", "tiny", "tiny")
    assert compared.exit_code == 0, compared.stderr
    assert "not clear" in compared.stdout
    assert (
        "nothing is kept of 'nobody'; evaluate it first: burnish eval nobody"
        in burnish("compare", "tiny", "nobody").stderr
    )
    missing = burnish("compare", "tiny", "tiny", "--suite", "errands").stderr
    assert "'tiny' was not evaluated on 'errands', but on: sums" in missing


def test_a_suite_is_checked_against_replies_that_know_nothing(burnish, tmp_path):
    sound = burnish("suites", "check", suite(tmp_path))
    assert (sound.exit_code, sound.stdout.startswith("sums: sound")) == (0, True), sound.output
    (tmp_path / "rows.jsonl").write_text(
        "".join(json.dumps({"question": f"{n}?", "choices": ["x", "y"], "answer": 0}) + "\n" for n in range(12))
    )
    (tmp_path / "rows.toml").write_text('[[tasks]]\ndomain = "rows:rows.jsonl"\noptions = { format = "choice" }\n')
    weak = burnish("suites", "check", tmp_path / "rows.toml")
    assert (weak.exit_code, weak.stdout.startswith("rows: weak")) == (1, True), weak.output
    assert "the constant 'A' scores 1.00" in weak.stdout


def test_a_suite_shows_the_hash_that_pins_it(burnish, tmp_path, refusal):
    shown = burnish("suites", "show", suite(tmp_path))
    pin = re.search(r'prompts = "(sha256:\w{64})"', shown.stdout)
    assert pin, shown.output
    assert burnish("suites", "check", suite(tmp_path, prompts=pin[1]), "--num", 2).exit_code == 0
    assert "pins its tasks as" in refusal("suites", "check", suite(tmp_path, prompts=pin[1], seed=9))
