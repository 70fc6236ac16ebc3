"""Stage `rl` with a budget of interactions, aimed draws and stored histories: counted, kept, the same after a kill."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from burnish.core import metrics
from burnish.core.errors import ConfigError
from burnish.core.ledger import Ledger
from burnish.core.recipe import Recipe
from burnish.core.types import Trajectory
from burnish.data import trajectory_files
from burnish.domains import open_domain
from burnish.rollout.groups import Group
from burnish.rollout.mixture import Source
from burnish.stages.check import check_recipe
from burnish.stages.curriculum import GATE
from burnish.stages.histories import place_of, renumbered
from burnish.stages.report import by_interactions
from burnish.stages.runner import run_recipe
from tests.stages.killed import KilledRun, assert_alike
from tests.stages.stored import trajectory

SUMS: dict[str, Any] = {"domain": "arithmetic", "num_eval": 4, "options": {"largest": 3}}
GUESSES: dict[str, Any] = {"domain": "tests.rollout.guessing_domain", "num_eval": 9}
COLLECT = {"use": "rl", "num_steps": 2, "prompts_per_step": 4, "group_size": 4, "objective": "reinforce"}
STEP = {"use": "rl", "num_steps": 9, "prompts_per_step": 2, "group_size": 4, "objective": "grpo"}


def recipe(*stages: dict[str, Any], task: dict[str, Any] = SUMS) -> Recipe:
    plain = {"name": "i", "seed": 3, "threads": 1, "model": {"name": "tiny"}, "tasks": [task]}
    return Recipe.model_validate(plain | {"stages": [*stages]})


def spent(run: Path, stage: int) -> list[int]:
    with sqlite3.connect(run / "ledger.sqlite") as db:
        rows = db.execute("SELECT interactions FROM spent WHERE stage = ? ORDER BY step", (stage,))
        return [number for (number,) in rows]


def kept(run: Path, stage: str) -> list[Trajectory]:
    paths = sorted((run / "trajectories").glob(f"{stage}-step-*.parquet"))
    return [one for path in paths for one in trajectory_files.read(path)]


def test_a_stage_ends_before_it_takes_more_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_recipe(recipe(COLLECT | {"max_interactions": 23, "num_steps": 5}, {"use": "evaluate"}), tmp_path, resume=False)
    told = " ".join(capsys.readouterr().out.split())
    assert "0-rl: 20 of max_interactions = 23 are used after 2 steps, and another group may take 4" in told
    assert spent(tmp_path / "i", 0) == [16, 4]
    assert len(kept(tmp_path / "i", "0-rl")) == 20  # the last step is settled though no checkpoint was due
    rows = [row.values for row in metrics.read(tmp_path / "i" / "metrics.jsonl") if row.stage == "0-rl"]
    assert [row["interactions_spent"] for row in rows] == [16, 20]
    with sqlite3.connect(tmp_path / "i" / "ledger.sqlite") as db:
        (result,) = db.execute("SELECT result FROM stages WHERE position = 0").fetchone()
    assert json.loads(result) == {"checkpoint": "0-rl", "interactions": 20}


def test_a_guarded_stage_whose_budget_is_used_up_ends_with_a_gate(tmp_path: Path) -> None:
    guarded = COLLECT | {"max_interactions": 23, "num_steps": 5, "guard": {"suites": ["arithmetic"], "every": 5}}
    run_recipe(recipe(guarded), tmp_path, resume=False)
    with closing(Ledger(tmp_path / "i" / "ledger.sqlite")) as ledger:
        assert [row.step for row in ledger.course(0) if row.kind == GATE] == [2]
        result = ledger.stage_result(0)
    assert result is not None and sum(result["gates"].values()) == 1 and result["interactions"] == 20


def test_turns_of_episodes_are_interactions_and_what_they_leave_over_is_used(tmp_path: Path) -> None:
    one = COLLECT | {"max_interactions": 60, "num_steps": 9, "prompts_per_step": 2}
    run_recipe(recipe(one, task=GUESSES), tmp_path, resume=False)
    members = kept(tmp_path / "i", "0-rl")
    num_turns = sum(len(member.steps) for member in members)
    assert sum(spent(tmp_path / "i", 0)) == num_turns <= 60
    assert 60 - num_turns < 4 * 4  # no group of 4 that may take 4 turns each would fit


def test_a_budget_that_holds_no_group_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="0 of max_interactions = 10 are used, and the first group may take 16"):
        run_recipe(recipe(COLLECT | {"max_interactions": 10}, task=GUESSES), tmp_path, resume=False)


AIMED = {"max_interactions": 40, "aim": {}}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_interactions": 3}, r"max_interactions \(3\) is less than a group of 4 takes"),
        ({"histories": ""}, "histories are read by aim and replay, and neither is set"),
        ({"replay": {}}, "replay has nothing to replay: set histories"),
        ({"histories": "nowhere", "aim": {}}, "histories: no file or folder 'nowhere'"),
        ({"max_staleness": 1, **AIMED}, "max_interactions and aim with max_staleness above 0"),
        ({"objective": "rloo", "histories": "", "replay": {}}, "takes replies to be of the policy that trains"),
        ({"objective": "oapl", "histories": "", "replay": {}}, "takes its ratio to the sampler itself"),
        ({"objective": "awr", "histories": "", "replay": {}}, "is not linear in its advantages"),
        ({"objective": "ppo", "histories": "", "replay": {}}, "has a value model"),
        ({"histories": "", "replay": {"share": 1.0}}, "replay.share"),
    ],
)
def test_options_that_do_not_go_together_name_the_way_out(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_recipe(recipe(STEP | options))


def test_aim_needs_tasks_to_choose_among(tmp_path: Path) -> None:
    rows = [{"prompt": f"Say {n}.", "truth": str(n), "source": str(n)} for n in range(2)]
    (tmp_path / "two.jsonl").write_text("\n".join(map(json.dumps, rows)))
    options = {"verifier": "exact", "eval_fraction": 0.5}
    task = {"domain": f"jsonl:{tmp_path}/two.jsonl", "num_eval": 1, "options": options}
    sizes = [open_domain(task["domain"], options).size(split) for split in ("train", "eval")]
    assert sizes == [1, 1]
    with pytest.raises(ConfigError, match="aim chooses among tasks, and there is one to train on"):
        check_recipe(recipe(STEP | {"aim": {}}, task=task))


def test_histories_of_this_run_are_those_of_its_earlier_stages(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none has left any; put a stage 'rl' before"):
        run_recipe(recipe(STEP | {"histories": "", "aim": {}}), tmp_path, resume=False)


def test_a_stored_group_is_the_entrys_whose_task_has_its_prompt() -> None:
    domain = open_domain("arithmetic", {"largest": 3})
    sources = [Source(entry=recipe(STEP).tasks[0], domain=domain)]
    task = domain.task("train", 1, 0)
    ours = trajectory(task.messages[0].content, "1", 1.0)
    assert place_of(Group("h", "", (ours,)), sources) == ("arithmetic", task)
    assert place_of(Group("h", "", (trajectory("99+99=", "1", 1.0),)), sources) is None
    assert place_of(Group("h", "", (replace(ours, task_id="arithmetic/eval/1/0"),)), sources) is None
    assert place_of(Group("h", "", (replace(ours, task_id="code/train/1/0"),)), sources) is None


def test_members_of_several_runs_are_told_apart() -> None:
    twice = (trajectory("1+1=", "2", 1.0), trajectory("1+1=", "3", 0.0))
    members = renumbered(Group("hash", "", twice), "sums").members
    assert [(one.group_id, one.member, one.reply) for one in members] == [("hash", 0, "2"), ("hash", 1, "3")]


def test_the_report_has_rewards_over_the_interactions_of_all_stages() -> None:
    rows = [
        metrics.Row(stage="1-rl", step=0, values={"interactions": 8.0, "reward/a": 0.25, "reward/a/part/x": 1.0}),
        metrics.Row(stage="2-sft", step=0, values={"loss": 1.0}),
        metrics.Row(stage="3-rl", step=0, values={"interactions": 4.0, "reward/a": 0.5, "reward/b": 1.0}),
    ]
    assert by_interactions(rows) == {"a": [(8.0, 0.25), (12.0, 0.5)], "b": [(12.0, 1.0)]}


KILLED = """
name = "broken"
seed = 4
threads = 1
model = { name = "tiny" }
tasks = [{ domain = "arithmetic", num_eval = 4, options = { largest = 3 } }]

[[stages]]
use = "sft"
num_examples = 400
batch_size = 20
learning_rate = 1e-2
checkpoint_every = 50

[[stages]]
use = "rl"
num_steps = 2
prompts_per_step = 4
group_size = 4
learning_rate = 1e-12
max_draws_factor = 1

[[stages]]
use = "rl"
num_steps = 20
prompts_per_step = 3
group_size = 4
checkpoint_every = 3
max_interactions = 90
histories = ""
aim = {}
replay = { share = 0.3, bound = 3.0, max_uses = 9 }
"""


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> KilledRun:
    run = KilledRun(tmp_path_factory.mktemp("unbroken"), KILLED)
    run.finish()
    return run


def test_a_run_within_a_budget_was_aimed_and_replayed(unbroken: KilledRun) -> None:
    rows = [row for row in unbroken.logged() if row["stage"] == "2-rl"]
    assert sum(spent(unbroken.path, 2)) in range(87, 91)
    assert all(0.1 <= row["aim/weight"] <= 1 and row["aim/known"] > 0 for row in rows)
    replayed = [row for row in rows if row.get("replay/replies")]
    assert len(replayed) > 2 and all(row["replay/importance"] <= 2 for row in replayed)
    assert all(row["ratio"] == pytest.approx(1, abs=1e-4) for row in replayed)  # of fresh replies, as ever


NUM_SPENT = "SELECT COUNT(*) >= {} FROM spent WHERE stage = 2"
KILLS = {
    "when a step was counted and not yet trained": [NUM_SPENT.format(2)],
    "after a checkpoint, twice": [NUM_SPENT.format(4), NUM_SPENT.format(5)],
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("queries", [pytest.param(KILLS[name], id=name, marks=pytest.mark.slow) for name in KILLS])
def test_a_killed_run_counts_aims_and_replays_like_an_unbroken_one(
    queries: list[str], unbroken: KilledRun, tmp_path: Path
) -> None:
    run = KilledRun(tmp_path, KILLED)
    for query in queries:
        run.kill_when(lambda query=query: run.ledger_says(query))
    run.finish()
    assert spent(run.path, 2) == spent(unbroken.path, 2)
    assert_alike(run, unbroken, "2-rl", "checkpoints/2-rl/masters.safetensors")
