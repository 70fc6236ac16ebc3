"""SIGKILL at any moment loses no finished work, and a resumed run ends with the weights of an unbroken one."""

import sqlite3
from pathlib import Path

import pytest

from tests.stages.killed import KilledRun

RECIPE = """
name = "broken"
seed = 4
threads = 1
model = { name = "tiny" }
tasks = [{ domain = "arithmetic", num_eval = 6, options = { largest = 5 } }]
stages = [
  { use = "evaluate" },
  { use = "sft", num_examples = 240, batch_size = 20, learning_rate = 1e-2, checkpoint_every = 4 },
  { use = "rl", num_steps = 5, prompts_per_step = 4, group_size = 4, checkpoint_every = 2, max_draws_factor = 3 },
  { use = "evaluate" },
]
"""


def steps(run: KilledRun) -> list[tuple[str, int, float]]:
    return [(row["stage"], row["step"], row.get("loss", 0.0)) for row in run.logged()]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> KilledRun:
    run = KilledRun(tmp_path_factory.mktemp("unbroken"), RECIPE)
    run.finish()
    return run


ROLLOUTS = "SELECT COUNT(*) >= {} FROM rollouts"
KILLS = {
    "in the first evaluation": ["SELECT COUNT(*) >= 1 FROM sessions"],
    "after sft": ["SELECT COUNT(*) >= 2 FROM stages"],
    "in the first rollouts": [ROLLOUTS.format(3)],
    "between checkpoints": ["SELECT MAX(step) >= 3 FROM groups"],
    "after the first settled steps": ["SELECT COUNT(*) >= 1 FROM groups WHERE state = 'trained'"],
    "three times": ["SELECT COUNT(*) >= 2 FROM stages", ROLLOUTS.format(5), "SELECT MAX(step) >= 4 FROM groups"],
}
QUICK = ("in the first evaluation", "three times")
"""What the usual tests run; the others add little to them, and each takes two runs."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "queries",
    [
        pytest.param(queries, id=name, marks=[] if name in QUICK else [pytest.mark.slow])
        for name, queries in KILLS.items()
    ],
)
def test_a_killed_run_ends_like_an_unbroken_one(queries: list[str], unbroken: KilledRun, tmp_path: Path) -> None:
    run = KilledRun(tmp_path, RECIPE)
    for query in queries:
        run.kill_when(lambda query=query: run.ledger_says(query))
    run.finish()
    ours, theirs = (r.weights("checkpoints/2-rl/masters.safetensors") for r in (run, unbroken))
    assert all(ours[name].equal(theirs[name]) for name in theirs)
    assert steps(run) == steps(unbroken)
    with sqlite3.connect(run.path / "ledger.sqlite") as db:
        assert db.execute("SELECT COUNT(*) FROM groups WHERE state IN ('issued', 'ready')").fetchone() == (0,)
        assert db.execute("SELECT COUNT(*) FROM groups WHERE state = 'trained'").fetchone()[0] >= 5
        assert db.execute("SELECT COUNT(*) FROM rollouts").fetchone() == (0,)
    assert not list(tmp_path.rglob("*.part"))
