"""A guarded asynchronous run, killed at any moment, by the learner's engine or replicas: it decides alike, no sample
of given-up weights trains, each prompt is accounted for once, and the run is repeated bit for bit.
"""

from pathlib import Path
from typing import Any

import pytest

from burnish.core.ledger import Ledger
from burnish.rollout.stream_log import Ended, Event, Trained, from_ledger
from burnish.stages.curriculum import GATE
from burnish.stages.rl_replay import replay
from tests.stages.killed import KilledRun

SUITE = """
[[tasks]]
domain = "tests.stages.ledger_domain"
options = {{ ledger = "{folder}/broken/ledger.sqlite", script = "11011" }}
"""
RECIPE = """
name = "broken"
seed = 3
threads = 1
model = {{ name = "tiny" }}
engine = {{ max_rows = 8 }}
runtime = {{ engine_replicas = {num_replicas} }}
tasks = [{{ domain = "tests.stages.checksum_domain", group = "sums", num_eval = 2, options = {{ largest = 50 }}, when_check_fails = "train_anyway" }}]
stages = [{{ use = "rl", num_steps = 4, prompts_per_step = 2, group_size = 3, max_new_tokens = 6, num_warmup = 0, learning_rate = 1e-2, max_staleness = 2, guard = {{ every = 1, suites = ["{folder}/suite.toml"], margin = 0.5, alpha = 0.9, against = "start" }} }}]
"""  # noqa: E501  a table of TOML is one line
DECIDED = ["promote", "roll_back", "promote", "promote"]
ROLLED_BACK = "SELECT COUNT(*) >= 1 FROM course WHERE kind = 'gate' AND payload LIKE '%roll_back%'"
KILLS = {
    "never": [],
    "in the first evaluation": ["SELECT COUNT(*) >= 3 FROM guarded WHERE step = 0"],
    "in the evaluation of the gate that rolls back": ["SELECT COUNT(*) >= 3 FROM guarded WHERE step = 2"],
    "after its decision": [ROLLED_BACK],
    "after the next promotion": ["SELECT COUNT(*) >= 3 FROM course WHERE kind = 'gate'"],
    "four times": [
        "SELECT COUNT(*) >= 1 FROM course WHERE kind = 'gate'",
        "SELECT COUNT(*) >= 3 FROM guarded WHERE step = 2",
        ROLLED_BACK,
        "SELECT COUNT(*) >= 3 FROM guarded WHERE step = 3",
    ],
}


def killed(folder: Path, queries: list[str], num_replicas: int) -> KilledRun:
    (folder / "suite.toml").write_text(SUITE.format(folder=folder))
    run = KilledRun(folder, RECIPE.format(folder=folder, num_replicas=num_replicas))
    for query in queries:
        run.kill_when(lambda query=query: run.ledger_says(query))
    run.finish()
    return run


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("num_replicas", [0, 2])
@pytest.mark.parametrize("queries", [pytest.param(queries, id=name) for name, queries in KILLS.items()])
def test_gates_of_a_killed_asynchronous_run_hold(queries: list[str], num_replicas: int, tmp_path: Path) -> None:
    run = killed(tmp_path, queries, num_replicas)
    ledger = Ledger(run.path / "ledger.sqlite")
    gates = [row.payload for row in ledger.course(0) if row.kind == GATE]
    assert [gate["kind"] for gate in gates] == DECIDED
    assert ledger.stage_result(0)["promoted_step"] == 4
    told = [event for moment in from_ledger(ledger.events(0)) for event in moment.events]
    assert_nothing_given_up_trains(told, gates[1]["first_draw"])
    assert_accounted(ledger, told)
    (repeated,) = replay(run.path)
    assert repeated.is_equal


def assert_nothing_given_up_trains(told: list[Event], first_draw: int) -> None:
    """What trained before the roll-back was drawn before it, and what trained after it was drawn after it."""
    steps = {event.step: [number for number, _ in event.groups] for event in told if isinstance(event, Trained)}
    assert sorted(steps) == [0, 1, 2, 3]
    assert max(steps[0] + steps[1]) < first_draw <= min(steps[2] + steps[3])


def assert_accounted(ledger: Ledger, told: list[Any]) -> None:
    """Each prompt that was issued trained or was let go, once."""
    trained = [number for event in told if isinstance(event, Trained) for number, _ in event.groups]
    ended = [event.number for event in told if isinstance(event, Ended)]
    assert len({*trained, *ended}) == len(trained) + len(ended)
    assert ledger.group_counts(0) == (0, 0, len(trained), len(ended))
    assert ledger.pending(0) == []
