"""Whatever is killed at whatever moment: the run goes on or resumes, consumes each prompt once, and leaves nothing.

What is killed: the run's own process, workers that sample, that judge and that train, fork servers of sandboxes. When
is random; what must hold afterwards is not.
"""

import random
import sqlite3
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from burnish.core import metrics
from burnish.core.ledger import Ledger
from burnish.data import trajectory_files
from burnish.rollout.stream_log import Began, Ended, Trained, from_ledger
from burnish.sandbox import cgroups, missing
from burnish.stages.rl_replay import replay
from burnish.stages.rl_trainer import number_of
from tests.chaos.nursery import Nursery, Order, nursery
from tests.chaos.rampage import Hit, rampage

NUM_STEPS = 8
STAGE = 1
RECIPE = """
name = "{name}"
seed = 4
threads = 1
model = {{ name = "tiny" }}
engine = {{ options = {{ path = "torch", exact = true }} }}
verify = {{ cache = false }}
runtime = {runtime}
tasks = [{{ domain = "tests.chaos.boxed_sums", num_eval = 2 }}]
stages = [
  {{ use = "sft", num_examples = 960, batch_size = 20, learning_rate = 1e-2, checkpoint_every = 4 }},
  {{ use = "rl", num_steps = {num_steps}, prompts_per_step = 4, group_size = 4, checkpoint_every = 3, \
max_draws_factor = 3, max_staleness = {max_staleness} }},
]
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A way of running, and how many of which processes are killed."""

    kills: Counter[str]
    runtime: str = "{}"
    learner: str = "{}"
    """The runtime of a run that must end with the same bits; whatever samples and judges changes none."""
    max_staleness: int = 0


CASES = {
    "one process": Case(kills=Counter(driver=8, zygote=10)),
    "workers": Case(
        kills=Counter(driver=3, engine=4, verifier=8, zygote=6),
        runtime="{ engine_replicas = 1, verifier_workers = 2 }",
    ),
    "learner ranks": Case(
        kills=Counter(driver=3, rank=8, zygote=4), runtime="{ learner_ranks = 2 }", learner="{ learner_ranks = 2 }"
    ),
    "asynchronous": Case(
        kills=Counter(driver=6, verifier=6, zygote=6), runtime="{ verifier_workers = 2 }", max_staleness=2
    ),
}
assert sum(case.kills.total() for case in CASES.values()) >= 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the runs of a test are."""

    folder: Path
    breed: Nursery

    def order(self, case: Case, name: str) -> Order:
        recipe = RECIPE.format(name=name, runtime=case.runtime, max_staleness=case.max_staleness, num_steps=NUM_STEPS)
        file = self.folder / f"{name}.toml"
        file.write_text(recipe)
        return Order(str(file), str(self.folder / "runs"), str(self.folder / f"{name}.log"))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory):
    if lacks := missing():
        pytest.skip(f"this host cannot isolate: {'; '.join(lacks)}")
    folder = tmp_path_factory.mktemp("chaos")
    (folder / "temporary").mkdir()
    with nursery(folder / "temporary") as breed:
        yield Place(folder=folder, breed=breed)


@pytest.fixture(scope="module")
def unbroken(place: Place) -> Callable[[str], Path]:
    """A run by a learner of that runtime of which nothing was killed."""

    @cache
    def run_by(learner: str) -> Path:
        name = f"unbroken-{len(learner)}"
        order = place.order(Case(kills=Counter(), runtime=learner), name)
        assert not rampage(place.breed, order, place.folder / "runs" / name, Counter(), random.Random(0))
        return place.folder / "runs" / name

    return run_by


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", CASES)
def test_kills_at_random_moments_lose_nothing_repeat_nothing_and_leave_nothing(
    name: str, place: Place, unbroken: Callable[[str], Path]
) -> None:
    case, numbers = CASES[name], random.Random(name)
    hits: list[Hit] = []
    mounts = set(Path("/proc/self/mountinfo").read_text().splitlines())
    while left := case.kills - Counter(hit.kind for hit in hits):  # a run may end before all kills had their moment
        run = place.folder / "runs" / f"{name.replace(' ', '_')}-{len(hits)}"
        hits += rampage(place.breed, place.order(case, run.name), run, left, numbers)
        assert_each_prompt_is_consumed_once(run)
        if case.max_staleness:
            assert_log_is_whole(run)
        else:
            assert_ends_alike(run, unbroken(case.learner))
    assert Counter(hit.kind for hit in hits) == case.kills
    rampage(place.breed, place.order(case, run.name), run, Counter(), numbers)  # sweeps what was left; all else is done
    assert_nothing_is_left(place, hits, mounts)


def rows(run: Path, query: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(f"file:{run}/ledger.sqlite?mode=ro", uri=True) as db:
        return db.execute(query).fetchall()


def assert_each_prompt_is_consumed_once(run: Path) -> None:
    """By the ledger, the trajectories and the metrics alike."""
    states = dict(rows(run, "SELECT id, state FROM groups"))
    assert set(states.values()) <= {"trained", "dropped"}
    files = sorted((run / "trajectories").glob("*.parquet"))
    members = Counter((one.group_id, one.member) for file in files for one in trajectory_files.read(file))
    assert set(members.values()) == {1}
    trained = {group for group, state in states.items() if state == "trained"}
    assert trained <= {group for group, _ in members} <= states.keys()
    assert rows(run, "SELECT COUNT(*) FROM rollouts") == [(0,)]
    steps = [row.step for row in metrics.read(run / "metrics.jsonl") if row.stage == f"{STAGE}-rl"]
    assert steps == list(range(NUM_STEPS))


def assert_ends_alike(run: Path, unbroken: Path) -> None:
    """The same bits, and the same prompts in the same steps."""
    ours, theirs = (load_file(one / "checkpoints" / f"{STAGE}-rl" / "masters.safetensors") for one in (run, unbroken))
    assert ours.keys() == theirs.keys()
    assert [name for name, value in theirs.items() if not ours[name].equal(value)] == []
    groups = "SELECT id, step, task_id, state FROM groups ORDER BY id"
    assert rows(run, groups) == rows(unbroken, groups)


def assert_log_is_whole(run: Path) -> None:
    """Each group that was issued or begun trained or ended, once, and the log leads to the same bits again."""
    ledger = Ledger(run / "ledger.sqlite")
    events = [event for moment in from_ledger(ledger.events(STAGE)) for event in moment.events]
    ledger.close()
    trained = [number for step in events if isinstance(step, Trained) for number, _ in step.groups]
    ended = [event.number for event in events if isinstance(event, Ended)]
    assert sorted(trained + ended) == [number_of(group) for (group,) in rows(run, "SELECT id FROM groups ORDER BY id")]
    assert {event.key.number for event in events if isinstance(event, Began)} <= {*trained, *ended}
    assert [step.step for step in events if isinstance(step, Trained)] == list(range(NUM_STEPS))
    (repeated,) = replay(run)
    assert repeated.is_equal


def assert_nothing_is_left(place: Place, hits: list[Hit], mounts: set[str]) -> None:
    """No process, no temporary file, no mount, no control group."""
    assert place.breed.living() == []
    assert list((place.folder / "temporary").iterdir()) == []
    assert list(place.folder.rglob("*.part")) == []
    ours = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if "burnish" in line]
    assert set(ours) <= mounts
    groups = {group.name for tree in cgroups.trees() for group in tree.folder.glob("burnish-*")}
    assert [name for name in groups for hit in hits if name.startswith(f"burnish-{hit.pid}-")] == []
