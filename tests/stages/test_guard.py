"""A domain that teaches a model to break another is caught, rolled back and lowered; a kill changes nothing of that."""

import json
import sqlite3
import tomllib
from pathlib import Path
from typing import Any

import pytest

from burnish.core.config import validate
from burnish.core.errors import ConfigError
from burnish.core.ledger import Ledger
from burnish.core.recipe import Recipe
from burnish.evals.noninferiority import judge
from burnish.stages.check import check_recipe
from burnish.stages.curriculum import GATE, segments_of
from burnish.stages.runner import run_recipe
from tests.stages.killed import KilledRun, assert_alike

RECIPE = """
name = "broken"
seed = 4
threads = 1
model = { name = "tiny" }
tasks = [
  { domain = "tests.stages.harmful_domain", group = "good", num_eval = 60, options = { pays = "seven" }, when_check_fails = "train_anyway" },
  { domain = "tests.stages.harmful_domain", group = "harm", num_eval = 2, options = { pays = "else" }, when_check_fails = "train_anyway", enters = { at_step = 3 } },
]
stages = [
  { use = "sft", num_examples = 400, batch_size = 20, learning_rate = 1e-2 },
  { use = "rl", num_steps = 12, prompts_per_step = 4, group_size = 8, learning_rate = 3e-3, max_draws_factor = 4, checkpoint_every = 2, guard = { every = 3, suites = ["good"], margin = 0.25, look_every = 20 } },
  { use = "report" },
]
"""  # noqa: E501  a table of TOML is one line
STAGE = 1


def recipe(**changes: Any) -> Recipe:
    return validate(Recipe, tomllib.loads(RECIPE) | changes, "recipe")


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> KilledRun:
    run = KilledRun(tmp_path_factory.mktemp("unbroken"), RECIPE)
    run.finish()
    return run


def gates(run: KilledRun) -> list[dict[str, Any]]:
    return [row.payload for row in Ledger(run.path / "ledger.sqlite").course(STAGE) if row.kind == GATE]


def paired(run: KilledRun, first: int, second: int) -> tuple[list[float], list[float]]:
    """Scores of the tasks that were evaluated after both numbers of steps."""
    ledger = Ledger(run.path / "ledger.sqlite")
    before, after = (ledger.guarded(STAGE, step, "good") for step in (first, second))
    shared = [task_id for task_id in before if task_id in after]
    return [before[task_id]["score"] for task_id in shared], [after[task_id]["score"] for task_id in shared]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_harmful_domain_is_caught_rolled_back_and_lowered(unbroken: KilledRun) -> None:
    decided = gates(unbroken)
    kinds = [gate["kind"] for gate in decided]
    assert kinds[0] == "promote"  # the harmful domain had not entered
    assert "roll_back" in kinds
    back = decided[kinds.index("roll_back")]
    assert back["slipped"] == ["good"]
    (failed,) = [one for one in back["compared"] if one["kind"] == "fail"][:1]
    assert failed["after"] < failed["before"] - failed["margin"]
    before, after = (segment.shares["harm"] for segment in _around(unbroken, back))
    assert after < before / 2


def _around(run: KilledRun, gate: dict[str, Any]) -> list[Any]:
    """The segments with the harmful domain, the first before a gate and the first after it."""
    segments = segments_of(Ledger(run.path / "ledger.sqlite").course(STAGE))
    having = [segment for segment in segments if segment.shares.get("harm")]
    return [
        next(segment for segment in having if segment.first < gate["first_draw"]),
        next(segment for segment in having if segment.first > gate["first_draw"]),
    ]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_run_ends_with_no_guarded_suite_worse(unbroken: KilledRun) -> None:
    with sqlite3.connect(unbroken.path / "ledger.sqlite") as db:
        result = json.loads(db.execute("SELECT result FROM stages WHERE position = ?", (STAGE,)).fetchone()[0])
    assert result["gates"]["roll_back"] >= 1
    before, after = paired(unbroken, 0, result["promoted_step"])
    assert len(before) >= 40
    answer = judge(before, after, margin=0.25, alpha=0.05, num_planned=60)
    assert answer.kind == "pass"
    assert not (unbroken.path / "checkpoints" / f"1-rl-step-{result['promoted_step']}").exists()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_report_tells_of_gates_and_shares(unbroken: KilledRun) -> None:
    page = (unbroken.path / "reports" / "report.html").read_text()
    assert "roll back" in page
    assert "worse: -" in page
    assert "harm is active: step 3" in page


KILLS = {
    "in the first evaluation": ["SELECT COUNT(*) >= 20 FROM guarded WHERE step = 0"],
    "in a gate's evaluation": ["SELECT COUNT(*) >= 20 FROM guarded WHERE step = 6"],
    "after a decision": ["SELECT COUNT(*) >= 1 FROM course WHERE kind = 'gate' AND payload LIKE '%roll_back%'"],
    "after the first samples that follow it": [
        "SELECT MAX(groups.step) >= course.step FROM groups, course "
        "WHERE kind = 'gate' AND payload LIKE '%roll_back%' AND groups.stage = 1"
    ],
    "three times": [
        "SELECT COUNT(*) >= 1 FROM course WHERE kind = 'gate'",
        "SELECT COUNT(*) >= 1 FROM course WHERE kind = 'seen' AND step = 5",
        "SELECT COUNT(*) >= 1 FROM course WHERE kind = 'seen' AND step = 11",
    ],
}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("queries", [pytest.param(queries, id=name) for name, queries in KILLS.items()])
def test_a_killed_run_decides_and_ends_like_an_unbroken_one(
    queries: list[str], unbroken: KilledRun, tmp_path: Path
) -> None:
    run = KilledRun(tmp_path, RECIPE)
    for query in queries:
        run.kill_when(lambda query=query: run.ledger_says(query))
    run.finish()
    assert_alike(run, unbroken, "1-rl", "checkpoints/1-rl/masters.safetensors")
    ours, theirs = (Ledger(one.path / "ledger.sqlite").course(STAGE) for one in (run, unbroken))
    assert ours == theirs


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"guard": {"every": 2, "suites": ["nobody"]}}, "guard.suites names 'nobody'.*there are: good, harm.*no suite"),
        ({"guard": {"every": 2, "suites": ["good", "good"]}}, "names one twice"),
        ({"guard": {"every": 2, "suites": ["good"], "margins": {"harm": 0.1}}}, "margins has 'harm'"),
        ({"guard": {"every": 2, "suites": ["good"], "margins": {"good": 1.5}}}, "a margin lies between 0 and 1"),
        ({"mixture": {"kind": "signal"}, "group_size": 1, "objective": "reinforce_pp"}, "raise group_size"),
        ({"num_steps": 2}, "'harm' can never enter: enters.at_step is 3"),
    ],
)
def test_what_cannot_be_guarded_is_refused(options: dict[str, Any], message: str) -> None:
    stage = {"use": "rl", "num_steps": 12, "prompts_per_step": 4} | options
    with pytest.raises(ConfigError, match=message):
        check_recipe(recipe(stages=[stage]))


def test_the_check_prints_the_graph_and_the_gates(capsys: pytest.CaptureFixture[str]) -> None:
    check_recipe(recipe())
    told = capsys.readouterr().err
    assert "good: trains from the start" in told
    assert "harm: enters at step 3" in told
    assert "4 gates, one every 3 steps, alpha 0.05: good (margin 0.25)" in told


def test_gates_of_a_stage_that_hardly_moves_promote(tmp_path: Path) -> None:
    guard = {"every": 1, "suites": ["good"], "margin": 0.3, "against": "start"}
    stage = {"use": "rl", "num_steps": 2, "prompts_per_step": 2, "group_size": 2, "learning_rate": 1e-9}
    (good, _) = recipe().tasks
    made = recipe(tasks=[good.model_dump()], stages=[stage | {"objective": "reinforce", "guard": guard}])
    assert run_recipe(made, tmp_path, resume=False) == 0
    ledger = Ledger(tmp_path / "broken" / "ledger.sqlite")
    assert [row.payload["kind"] for row in ledger.course(0) if row.kind == GATE] == ["promote", "promote"]
    assert ledger.stage_result(0)["promoted_step"] == 2
