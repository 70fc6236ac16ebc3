"""SIGKILL at any moment loses no finished work, and a resumed run ends with the weights of an unbroken one."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from safetensors.torch import load_file

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
COMMAND = [sys.executable, "-c", "from burnish.cli import main; main()", "run"]


def start(folder: Path) -> subprocess.Popen[str]:
    recipe = folder / "broken.toml"
    recipe.write_text(RECIPE)
    return subprocess.Popen(
        [*COMMAND, str(recipe), "--resume", "--runs", str(folder)], text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip


def finish(folder: Path) -> None:
    process = start(folder)
    output, _ = process.communicate(timeout=110)
    assert process.returncode == 0, output


def kill_when(folder: Path, query: str) -> None:
    """Kill the run as soon as its ledger answers the query with something true."""
    process = start(folder)
    while not answered(folder / "broken" / "ledger.sqlite", query):
        assert process.poll() is None, f"the run ended before the kill: {process.stdout and process.stdout.read()}"
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def answered(ledger: Path, query: str) -> bool:
    if not ledger.exists():
        return False
    with sqlite3.connect(f"file:{ledger}?mode=ro", uri=True) as db:
        try:
            return bool(db.execute(query).fetchone()[0])
        except sqlite3.Error:  # its tables are still to come
            return False


def steps(folder: Path) -> list[tuple[str, int, float]]:
    rows = [json.loads(line) for line in (folder / "broken" / "metrics.jsonl").read_text().splitlines()]
    return [(row["stage"], row["step"], row.get("loss", 0.0)) for row in rows]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unbroken")
    finish(folder)
    return folder


ROLLOUTS = "SELECT COUNT(*) >= {} FROM rollouts"
KILLS = {
    "in the first evaluation": ["SELECT COUNT(*) >= 1 FROM sessions"],
    "after sft": ["SELECT COUNT(*) >= 2 FROM stages"],
    "in the first rollouts": [ROLLOUTS.format(3)],
    "between checkpoints": ["SELECT MAX(step) >= 3 FROM groups"],
    "after the first settled steps": ["SELECT COUNT(*) >= 1 FROM groups WHERE state = 'trained'"],
    "three times": ["SELECT COUNT(*) >= 2 FROM stages", ROLLOUTS.format(5), "SELECT MAX(step) >= 4 FROM groups"],
}
WITHIN_THREE_TIMES = ("after sft", "in the first rollouts")
"""Alone they add little, and each takes two runs."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "queries",
    [
        pytest.param(queries, id=name, marks=[pytest.mark.slow] if name in WITHIN_THREE_TIMES else [])
        for name, queries in KILLS.items()
    ],
)
def test_a_killed_run_ends_like_an_unbroken_one(queries: list[str], unbroken: Path, tmp_path: Path) -> None:
    for query in queries:
        kill_when(tmp_path, query)
    finish(tmp_path)
    ours, theirs = (
        load_file(f / "broken" / "checkpoints" / "2-rl" / "masters.safetensors") for f in (tmp_path, unbroken)
    )
    assert all(ours[name].equal(theirs[name]) for name in theirs)
    assert steps(tmp_path) == steps(unbroken)
    with sqlite3.connect(tmp_path / "broken" / "ledger.sqlite") as db:
        assert db.execute("SELECT COUNT(*) FROM groups WHERE state IN ('issued', 'ready')").fetchone() == (0,)
        assert db.execute("SELECT COUNT(*) FROM groups WHERE state = 'trained'").fetchone()[0] >= 5
        assert db.execute("SELECT COUNT(*) FROM rollouts").fetchone() == (0,)
    assert not list(tmp_path.rglob("*.part"))
