"""A whole run on the tiny model: what it leaves, and what its exit code says."""

import json
from pathlib import Path

import pytest
import torch
from rich.console import Console
from transformers import AutoModelForCausalLM, AutoTokenizer

from burnish.core import metrics
from burnish.core.errors import ConfigError
from burnish.core.recipe import Recipe, read_recipe
from burnish.evals.records import summarise
from burnish.evals.runs import Store
from burnish.evals.suites import Suite
from burnish.stages.eval_models import open_model
from burnish.stages.eval_suite import evaluate_suite
from burnish.stages.export import export
from burnish.stages.runner import EXIT_HELD, EXIT_PROMOTED, run_recipe

RECIPES = Path(__file__).parents[2] / "recipes"
SHORT = ["threads=1", "stages.1.num_examples=600", "stages.3.num_steps=2"]


def run(recipe: Recipe, runs: Path, *, resume: bool = False) -> int:
    return run_recipe(recipe, runs, resume=resume)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("runs")
    assert run(read_recipe(RECIPES / "arithmetic_tiny.toml", SHORT), runs) == EXIT_PROMOTED
    return runs / "arithmetic_tiny"


def test_the_summary_has_the_promised_keys(finished: Path) -> None:
    summary = json.loads((finished / "reports" / "summary.json").read_text())
    assert summary["outcome"] == "promoted"
    assert summary["seed"] == 1
    domain = summary["domains"]["arithmetic"]
    assert set(domain) >= {"before", "after", "paired_p"}
    assert set(domain["before"]) == {"mean", "low", "high", "n"}
    assert domain["after"]["n"] == 4
    assert min(summary[key] for key in ("wall_s", "peak_rss_mb", "tokens_sampled", "tokens_trained")) > 0


def test_the_report_is_one_file_that_names_the_domain(finished: Path) -> None:
    page = (finished / "reports" / "report.html").read_text()
    assert "arithmetic" in page
    assert "src=" not in page
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_plain_transformers_loads_the_export_and_generates_what_the_run_would(finished: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(finished / "final")
    model = AutoModelForCausalLM.from_pretrained(finished / "final", dtype=torch.float32)
    ids = tokenizer.apply_chat_template(
        [{"role": "user", "content": "2+3="}], add_generation_prompt=True, return_dict=False
    )
    generated = model.generate(torch.tensor([ids]), max_new_tokens=6, do_sample=False)
    assert generated.shape[1] > len(ids)
    assert model.config._attn_implementation != "burnish"


def test_an_exported_checkpoint_equals_the_final_model(finished: Path, tmp_path: Path) -> None:
    export(finished / "checkpoints" / "3-rl", tmp_path / "out")
    one, two = (
        AutoModelForCausalLM.from_pretrained(f, dtype=torch.float32) for f in (finished / "final", tmp_path / "out")
    )
    for (name, ours), theirs in zip(one.state_dict().items(), two.state_dict().values(), strict=True):
        assert torch.equal(ours, theirs), name


def test_evaluating_the_export_on_the_same_tasks_gives_the_same_mean(finished: Path) -> None:
    recipe = read_recipe(RECIPES / "arithmetic_tiny.toml")
    suite = Suite(name="own", tasks=recipe.tasks)
    store = Store(finished / "kept")
    done = evaluate_suite(open_model(str(finished / "final")), suite, Console(quiet=True), store=store)
    summary = json.loads((finished / "reports" / "summary.json").read_text())
    assert summarise(done.run.results)["arithmetic"].mean == summary["domains"]["arithmetic"]["after"]["mean"]


def test_a_finished_run_is_not_done_again(finished: Path) -> None:
    before = (finished / "metrics.jsonl").read_bytes()
    assert run(read_recipe(RECIPES / "arithmetic_tiny.toml", SHORT), finished.parent, resume=True) == EXIT_PROMOTED
    assert (finished / "metrics.jsonl").read_bytes() == before


def test_the_invariants_are_in_the_metrics(finished: Path) -> None:
    rows = [
        row.values for row in metrics.read(finished / "metrics.jsonl") if row.stage == "3-rl" and "ratio" in row.values
    ]
    assert rows
    assert all(row["ratio"] == pytest.approx(1, abs=1e-6) and row["mismatch"] < 1e-4 for row in rows)


HARMFUL = """
name = "harmful"
threads = 1
model = { name = "tiny" }
tasks = [{ domain = "jsonl:TASKS", num_eval = 12, options = { verifier = "exact", eval_fraction = 0.3 } }]
stages = [
  { use = "sft", num_examples = 200, batch_size = 10, learning_rate = 1e-2 },
  { use = "evaluate" },
  { use = "sft", num_examples = 10, batch_size = 10, learning_rate = 3.0, num_warmup = 0 },
  { use = "evaluate" },
  { use = "gate" },
  { use = "export" },
  { use = "report" },
]
"""


def test_a_run_that_made_a_domain_worse_is_held_and_exports_the_best_checkpoint(tmp_path: Path) -> None:
    tasks = [{"prompt": f"Say seven, number {n}", "truth": "7", "gold": "7"} for n in range(60)]
    (tmp_path / "tasks.jsonl").write_text("\n".join(map(json.dumps, tasks)))
    (tmp_path / "harmful.toml").write_text(HARMFUL.replace("TASKS", str(tmp_path / "tasks.jsonl")))
    assert run(read_recipe(tmp_path / "harmful.toml"), tmp_path) == EXIT_HELD
    summary = json.loads((tmp_path / "harmful" / "reports" / "summary.json").read_text())
    assert summary["outcome"] == "held"
    (domain,) = summary["domains"].values()
    assert domain["after"] == domain["before"]
    assert domain["before"]["mean"] > 0.9


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        (["stages.1.num_exampels=3"], "did you mean 'num_examples'"),
        (["stages.3.objective=grop"], "no plugin 'grop'"),
        (["stages.3.objective=sft"], "no advantages of groups"),
        (["stages.3.updates_per_step=99"], "each update needs a group"),
        (["stages.3.aggregation=sum_over_max_length"], "set it"),
        (["stages.0.use=evaluat"], "no plugin 'evaluat'"),
        (["model.name=/no/such/folder"], "no such folder"),
    ],
)
def test_what_is_wrong_with_a_recipe_is_said_before_anything_runs(
    assignments: list[str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        run(read_recipe(RECIPES / "arithmetic_tiny.toml", assignments), tmp_path)


def test_a_run_without_a_gate_is_no_failure(tmp_path: Path) -> None:
    recipe = read_recipe(RECIPES / "arithmetic_tiny.toml", SHORT)
    ungated = recipe.model_copy(update={"stages": [recipe.stages[0], {"use": "report"}]})
    assert run(ungated, tmp_path) == EXIT_PROMOTED
    summary = json.loads((tmp_path / "arithmetic_tiny" / "reports" / "summary.json").read_text())
    assert summary["outcome"] == "ungated"
