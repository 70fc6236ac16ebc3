"""SIGKILL at any moment of an asynchronous run: each prompt is consumed once, and the run can be repeated bit for bit.

Which groups are trained on depends on when verdicts came, so that a killed run need not end like an unbroken one.
"""

import json
import sqlite3
from pathlib import Path

import pytest

from burnish.core.ledger import Ledger
from burnish.rollout.stream_log import Ended, Interrupted, Trained, from_ledger
from burnish.stages.rl_replay import replay
from tests.stages.killed import KilledRun

RECIPE = """
name = "broken"
seed = 4
threads = 1
model = { name = "tiny" }
tasks = [{ domain = "arithmetic", num_eval = 6, options = { largest = 5 } }]
stages = [
  { use = "sft", num_examples = 240, batch_size = 20, learning_rate = 1e-2 },
  { use = "rl", num_steps = 6, prompts_per_step = 4, group_size = 4, checkpoint_every = 3, max_draws_factor = 3, max_staleness = 2 },
]
"""  # noqa: E501  a table of TOML is one line
EPISODES = """
name = "broken"
seed = 4
threads = 1
model = { name = "tiny" }
episodes = { max_open = 8 }
tasks = [{ domain = "tests.stages.hashed_rooms", num_eval = 2, when_check_fails = "train_anyway" }]
stages = [
  { use = "evaluate" },
  { use = "rl", num_steps = 6, prompts_per_step = 4, group_size = 4, checkpoint_every = 3, max_draws_factor = 3, max_staleness = 2, credit = "turn" },
]
"""  # noqa: E501  a table of TOML is one line
STAGE = 1
EVENTS = "SELECT COUNT(*) >= {} FROM events"
KILLS = {
    "in the first rollouts": [EVENTS.format(3)],
    "between checkpoints": ["SELECT COUNT(*) >= 5 FROM groups WHERE state = 'ready'"],
    "after the first settled steps": ["SELECT COUNT(*) >= 1 FROM groups WHERE state = 'trained'"],
    "three times": [EVENTS.format(20), EVENTS.format(60), "SELECT MAX(step) >= 4 FROM groups WHERE state = 'ready'"],
}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("recipe", [pytest.param(RECIPE, id="replies"), pytest.param(EPISODES, id="episodes")])
@pytest.mark.parametrize("queries", [pytest.param(queries, id=name) for name, queries in KILLS.items()])
def test_a_killed_run_consumes_each_prompt_once_and_is_repeated_bit_for_bit(
    recipe: str, queries: list[str], tmp_path: Path
) -> None:
    run = KilledRun(tmp_path, recipe)
    for query in queries:
        run.kill_when(lambda query=query: run.ledger_says(query))
    run.finish()
    moments = from_ledger(Ledger(run.path / "ledger.sqlite").events(STAGE))
    events = [event for moment in moments for event in moment.events]
    trained = [number for step in events if isinstance(step, Trained) for number, _ in step.groups]
    ended = [event.number for event in events if isinstance(event, Ended)]
    assert sum(isinstance(event, Interrupted) for event in events) == len(queries)
    assert sorted(trained + ended) == list(range(len(trained) + len(ended)))
    assert [step.step for step in events if isinstance(step, Trained)] == list(range(6))
    with sqlite3.connect(run.path / "ledger.sqlite") as db:
        assert db.execute("SELECT COUNT(*) FROM groups WHERE state IN ('issued', 'ready')").fetchone() == (0,)
        assert db.execute("SELECT COUNT(*) FROM rollouts").fetchone() == (0,)
    steps = [row["step"] for row in map(json.loads, (run.path / "metrics.jsonl").read_text().splitlines())]
    assert steps[-6:] == list(range(6))
    assert not list(tmp_path.rglob("*.part"))
    (repeated,) = replay(run.path)
    assert repeated.is_equal
