"""Episodes in the asynchronous loop: how old their turns are, what ends a process leaves, repetitions."""

import json
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from burnish.core.recipe import Recipe
from burnish.core.types import Trajectory
from burnish.data import trajectory_files
from burnish.rollout.stream_log import Asked, Event, Played, Said, Trained
from burnish.stages.rl_replay import Parted, replay
from burnish.stages.runner import run_recipe
from tests.stages import hashed_rooms
from tests.stages.streams import ScriptedVerdicts, recipe, session_of, train
from tests.stages.test_asynchronous import events_of

BOUND = 2


def rooms(argument: str = "", **options: object) -> Recipe:
    domain = "tests.stages.hashed_rooms" + argument
    made = recipe(credit="turn", **options).model_dump()
    made |= {"tasks": [{"domain": domain, "num_eval": 2, "when_check_fails": "train_anyway"}]}
    return Recipe.model_validate(made | {"episodes": {"max_open": 4}})


def run(runs: Path, argument: str = "", **options: object) -> list[Event]:
    with session_of(rooms(argument, **options), runs) as session:
        train(session, ScriptedVerdicts(1))
    assert not hashed_rooms.OPEN, "a room was not left"
    return events_of(runs)


def trained(runs: Path) -> list[Trajectory]:
    files = sorted((runs / "stream" / "trajectories").glob("*.parquet"))
    return [one for file in files for one in trajectory_files.read(file)]


def test_no_turn_that_trains_is_older_than_the_bound_and_each_has_its_versions(tmp_path: Path) -> None:
    events = run(tmp_path, num_steps=6)
    played = {event.key[:2]: event for event in events if isinstance(event, Played)}
    lags = [
        step.version - played[number, member].oldest_version
        for step in events
        if isinstance(step, Trained)
        for number, members in step.groups
        for member in members
    ]
    assert min(lags) >= 0 and 0 < max(lags) <= BOUND
    for one in trained(tmp_path):
        assert one.steps and one.oldest_version == min(step.oldest_version for step in one.steps)
        assert one.newest_version == max(step.newest_version for step in one.steps)
    assert max(step.newest_version for one in trained(tmp_path) for step in one.steps) > 0


def test_a_run_is_repeated_bit_for_bit_without_its_worlds(tmp_path: Path) -> None:
    events = run(tmp_path)
    assert sum(isinstance(event, Asked) for event in events) > sum(isinstance(event, Played) for event in events)
    [repeated] = replay(tmp_path / "stream")
    assert repeated.is_equal and repeated.num_samples == sum(isinstance(event, Said) for event in events)


def test_a_run_that_ended_goes_on_with_each_prompt_once_and_is_repeated(tmp_path: Path) -> None:
    made = rooms(num_steps=6)
    for resume, num_steps in ((False, 3), (True, None)):
        with session_of(made, tmp_path, resume=resume) as session:
            train(session, ScriptedVerdicts(1), num_steps=num_steps)
    steps = [event for event in events_of(tmp_path) if isinstance(event, Trained)]
    assert [event.step for event in steps] == [*range(6)]
    numbers = Counter(number for event in steps for number, _ in event.groups)
    assert set(numbers.values()) == {1}
    assert replay(tmp_path / "stream")[0].is_equal
    assert not hashed_rooms.OPEN


def test_a_member_whose_world_fails_is_tried_again_by_the_schedulers_rule(tmp_path: Path) -> None:
    events = run(tmp_path, ":breaking", num_steps=3)
    assert max(event.key.attempt for event in events if isinstance(event, Asked)) > 0
    assert all(one.verdict is not None for one in trained(tmp_path))


def test_the_first_episodes_are_those_of_the_synchronous_loop(tmp_path: Path) -> None:
    exact = {"max_rows": 8, "options": {"exact": True}}
    made: dict[str, Any] = rooms(num_steps=2).model_dump()
    made["engine"] = exact
    stage = {key: value for key, value in made["stages"][0].items() if key != "max_staleness"}
    for name, stages in (("a", made["stages"]), ("s", [stage])):
        run_recipe(Recipe.model_validate(made | {"stages": stages, "name": name}), tmp_path, resume=False)
    first = {
        name: {
            (one.group_id, one.member): one.token_ids
            for file in (tmp_path / name / "trajectories").glob("*.parquet")
            for one in trajectory_files.read(file)
            if one.newest_version == 0
        }
        for name in ("a", "s")
    }
    both = first["a"].keys() & first["s"].keys()
    assert len(both) >= 3
    assert all(first["a"][key] == first["s"][key] for key in both)


def test_a_repetition_says_where_an_episode_parts(tmp_path: Path) -> None:
    with session_of(rooms(), tmp_path) as session:
        train(session, ScriptedVerdicts(1))
        ledger = session.folder.path / "ledger.sqlite"
    change_a_digest(ledger)
    with pytest.raises(Parted, match="a turn of its episode is another"):
        replay(tmp_path / "stream")


def change_a_digest(ledger: Path) -> None:
    """As if another turn had been sampled."""
    with sqlite3.connect(ledger) as db:
        number, payload = next(
            (number, payload)
            for number, payload in db.execute("SELECT number, payload FROM events")
            if '["u"' in payload
        )
        events = json.loads(payload)
        turn = next(event for event in events if event[0] == "u")
        turn[-1] = "another"
        db.execute("UPDATE events SET payload = ? WHERE number = ?", (json.dumps(events), number))
