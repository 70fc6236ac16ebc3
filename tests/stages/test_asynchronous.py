"""The asynchronous loop: the bound on staleness, what trains, every prompt once whenever the process ends, replay."""

import itertools
import shutil
import sqlite3
from collections import Counter
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
from typer.testing import CliRunner

from burnish.cli import app
from burnish.core import metrics
from burnish.core.config import validate
from burnish.core.errors import ConfigError, InvariantError, RunFolderError
from burnish.core.ledger import Ledger
from burnish.core.recipe import read_recipe
from burnish.core.types import Verdict
from burnish.engine.local import LocalEngine
from burnish.rollout.scheduler_types import Decision, Start, Ticket
from burnish.rollout.stream_log import Began, Cut, Ended, Event, Interrupted, Key, Moment, Sampled, Trained, from_ledger
from burnish.runtime.watchdog import Watchdog
from burnish.stages.check import open_stages
from burnish.stages.rl_config import Config
from burnish.stages.rl_plan import make_plan
from burnish.stages.rl_replay import Parted, replay
from burnish.stages.rl_stream import _Loop
from burnish.stages.rl_trainer import Trainer, Versions
from burnish.stages.runner import run_recipe
from tests.stages.streams import Clock, LateVerdicts, ScriptedVerdicts, by_reply, config_of, recipe, session_of, train

BOUND = 2


def events_of(runs: Path) -> list[Event]:
    return [
        event for moment in from_ledger(Ledger(runs / "stream" / "ledger.sqlite").events(0)) for event in moment.events
    ]


def run(runs: Path, verdicts: ScriptedVerdicts, **options: object) -> list[Event]:
    with session_of(recipe(**options), runs) as session:
        train(session, verdicts)
    return events_of(runs)


def ages(events: list[Event]) -> list[int]:
    """How many versions the oldest token of each trained reply lags; a step has one update here."""
    oldest = {event.key[:2]: event.oldest_version for event in events if isinstance(event, Sampled)}
    return [
        step.version - oldest[number, member]
        for step in events
        if isinstance(step, Trained)
        for number, members in step.groups
        for member in members
    ]


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)])
def test_no_trained_token_is_older_than_the_bound_whenever_verdicts_come(seed: int, tmp_path: Path) -> None:
    lags = ages(run(tmp_path, ScriptedVerdicts(seed), num_steps=6))
    assert max(lags) == BOUND  # it is used, and not exceeded
    assert min(lags) >= 0


def test_replies_that_finish_first_are_of_one_version_and_others_go_on_with_new_weights(tmp_path: Path) -> None:
    spans: dict[str, set[bool]] = {}
    for in_flight in ("finish", "continue"):
        events = run(tmp_path / in_flight, ScriptedVerdicts(1), in_flight=in_flight)
        spans[in_flight] = {e.oldest_version == e.newest_version for e in events if isinstance(e, Sampled)}
    assert spans == {"finish": {True}, "continue": {True, False}}


def failing(key: Key, reply: str) -> Verdict:
    return Verdict.infrastructure_error("down") if key.member == 1 else by_reply(key, reply)


def test_a_member_without_a_score_never_trains_and_is_tried_again_by_rule(tmp_path: Path) -> None:
    events = run(tmp_path, ScriptedVerdicts(1, score=failing), num_steps=2, scheduler={"num_retries": 2})
    trained = {members for step in events if isinstance(step, Trained) for _, members in step.groups}
    assert trained == {(0, 2)}
    attempts = Counter(e.key.attempt for e in events if isinstance(e, Sampled) and e.key.member == 1)
    assert set(attempts) == {0, 1, 2}


def test_a_group_with_too_few_scores_is_dropped_and_booked(tmp_path: Path) -> None:
    with session_of(recipe(num_steps=1, scheduler={"min_members": 3, "num_retries": 0}), tmp_path) as session:
        only_third = ScriptedVerdicts(1, score=lambda key, reply: (failing if key.number % 3 else by_reply)(key, reply))
        train(session, only_third)
        counts = session.ledger.group_counts(0)
    ends = Counter(event.why for event in events_of(tmp_path) if isinstance(event, Ended))
    assert ends["failed"] > 0
    assert counts.dropped == ends.total()
    assert (counts.issued, counts.ready) == (0, 0)


def test_prompts_that_a_spent_budget_refuses_are_drawn_past_while_nothing_is_under_way(
    tmp_path: Path,
) -> None:
    budget = {"domains": {"arithmetic": {"token_budget": 20}}}  # one group of three members
    options = {"num_steps": 2, "prompts_per_step": 1, "max_staleness": 1, "max_draws_factor": 4.0, "scheduler": budget}
    events = run(tmp_path, ScriptedVerdicts(1), **options)
    assert [event.step for event in events if isinstance(event, Trained)] == [0, 1]
    assert Counter(event.why for event in events if isinstance(event, Ended))["budget"] > 3


def test_groups_of_a_domain_train_or_end_at_its_deadline_and_the_run_is_repeated(tmp_path: Path) -> None:
    rules = {"domains": {"arithmetic": {"deadline_s": 40.0}}}
    events = run(tmp_path, ScriptedVerdicts(1), num_steps=3, scheduler=rules, max_draws_factor=8.0)
    assert Counter(event.why for event in events if isinstance(event, Ended))["deadline"] > 0
    sizes = [len(members) for step in events if isinstance(step, Trained) for _, members in step.groups]
    assert sizes and min(sizes) >= 2
    (repeated,) = replay(tmp_path / "stream")
    assert repeated.is_equal


def test_verdicts_that_do_not_come_are_named(tmp_path: Path) -> None:
    verdicts = LateVerdicts(ScriptedVerdicts(1))

    def tell(message: str) -> None:
        if message.endswith("s for verdicts: two are being judged"):
            verdicts.heard.set()

    with session_of(recipe(num_steps=1), tmp_path) as session, Watchdog(tell, patience_s=0.05) as watchdog:
        status = "verdicts: two are being judged"
        session.means = replace(session.means, watchdog=watchdog, verify_status=lambda: status)
        train(session, verdicts)
    assert verdicts.heard.is_set()


def num_lost_at_the_first_end(events: list[Event]) -> int:
    """How many members were under way in the engine."""
    before = events[: events.index(Interrupted())]
    begun = {event.key for event in before if isinstance(event, Began)}
    return len(begun - {event.key for event in before if isinstance(event, Sampled | Cut)})


def assert_each_prompt_is_consumed_once(runs: Path, num_steps: int) -> None:
    events = events_of(runs)
    trained = [number for step in events if isinstance(step, Trained) for number, _ in step.groups]
    ended = [event.number for event in events if isinstance(event, Ended)]
    assert [event.step for event in events if isinstance(event, Trained)] == list(range(num_steps))
    assert sorted(trained + ended) == list(range(len(trained) + len(ended)))
    ledger = Ledger(runs / "stream" / "ledger.sqlite")
    assert ledger.group_counts(0) == (0, 0, len(trained), len(ended))
    assert ledger.pending(0) == []
    assert not list(itertools.chain.from_iterable(ledger.rollouts(group_id) for group_id in ledger.issued(0)))


@pytest.mark.parametrize(
    "ends",
    [
        pytest.param([3], id="between checkpoints"),
        pytest.param([2], id="at a checkpoint", marks=pytest.mark.slow),
        pytest.param([1, 3, 4], id="three times", marks=pytest.mark.slow),
    ],
)
def test_a_run_that_ended_goes_on_with_each_prompt_once_and_is_repeated_bit_for_bit(
    ends: list[int], tmp_path: Path
) -> None:
    for seed, end in enumerate([*ends, None]):
        with session_of(recipe(max_new_tokens=24), tmp_path, resume=bool(seed)) as session:
            train(session, ScriptedVerdicts(seed, most_looks=4), num_steps=end)
    events = events_of(tmp_path)
    assert sum(isinstance(event, Interrupted) for event in events) == len(ends)
    assert num_lost_at_the_first_end(events) > 0
    assert max(ages(events)) <= BOUND
    assert_each_prompt_is_consumed_once(tmp_path, num_steps=5)
    (repeated,) = replay(tmp_path / "stream")
    assert repeated.is_equal
    assert repeated.num_steps == 5


def test_finished_members_of_groups_under_way_survive_the_end_of_the_process(tmp_path: Path) -> None:
    with session_of(recipe(), tmp_path) as session:
        train(session, ScriptedVerdicts(1), num_steps=3)
        kept = {one.group_id: one for group in session.ledger.pending(0) for one in session.ledger.rollouts(group)}
    with session_of(recipe(), tmp_path, resume=True) as session:
        train(session, ScriptedVerdicts(1))
    events = events_of(tmp_path)
    after = events[events.index(Interrupted()) :]
    again = {event.key[:2] for event in after if isinstance(event, Sampled)}
    assert kept
    assert not again & {(int(one.group_id.split("/")[1]), one.member) for one in kept.values()}


def test_what_was_kept_of_a_group_that_is_sampled_anew_is_not_taken_for_its_new_sample(tmp_path: Path) -> None:
    with session_of(recipe(), tmp_path) as session:
        train(session, ScriptedVerdicts(1), num_steps=1)
    with session_of(recipe(), tmp_path, resume=True) as session:
        config = config_of(session.recipe)
        moments = from_ledger(session.ledger.events(0))
        versions = Versions(moments)
        versions.begin(1, 1)
        trainer = Trainer(session, config, make_plan(session, config), versions)
        assert isinstance(session.means.engine, LocalEngine)
        loop = _Loop(trainer, session.means.engine, moments, ScriptedVerdicts(1), Clock())
        kept = next(one for group in session.ledger.pending(0) for one in session.ledger.rollouts(group))
        again = Start(Ticket(kept.group_id, kept.member, 1), resumes=False, level=0)
        loop._carry_out(Decision(restarted=(kept.group_id,), start=(again,)), 9.0)
    assert events_of(tmp_path)[-1] == Began(Key(int(kept.group_id.split("/")[1]), kept.member, 1))


def test_a_repetition_says_where_it_parts(tmp_path: Path) -> None:
    run(tmp_path, ScriptedVerdicts(1), num_steps=2)
    with sqlite3.connect(tmp_path / "stream" / "ledger.sqlite") as db:  # another attempt has another seed
        db.execute("""UPDATE events SET payload = replace(payload, '["b",1,2,0]', '["b",1,2,5]')""")
        db.execute("""UPDATE events SET payload = replace(payload, '"s",1,2,0', '"s",1,2,5')""")
    with pytest.raises(Parted, match="group 0/0000001, member 2"):
        replay(tmp_path / "stream")


def test_other_weights_are_told_and_end_with_1(tmp_path: Path) -> None:
    run(tmp_path, ScriptedVerdicts(1), num_steps=1)
    checkpoints = tmp_path / "stream" / "checkpoints"
    shutil.copy(checkpoints / "base" / "masters.safetensors", checkpoints / "0-rl" / "masters.safetensors")
    result = CliRunner().invoke(app, ["replay", str(tmp_path / "stream")])
    assert (result.exit_code, "the weights DIFFER" in result.output) == (1, True)


def test_a_folder_without_a_run_cannot_be_repeated(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="no run in"):
        replay(tmp_path)


def test_a_step_that_begins_from_other_weights_than_it_did_is_refused() -> None:
    versions = Versions([Moment(3, (Trained(0, 0, ()), Trained(1, 2, ())))])
    versions.begin(1, 2)
    versions.begin(2, 4)
    assert [versions.step_of(version) for version in (0, 1, 2, 3, 4)] == [0, 0, 1, 1, 2]
    assert versions.largest_lag(2, 1) == 2
    with pytest.raises(InvariantError, match="not of one run"):
        versions.begin(1, 3)


RECIPE = Path(__file__).parents[2] / "recipes" / "arithmetic_tiny.toml"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_reward_rises_with_tokens_two_steps_old(tmp_path: Path) -> None:
    run_recipe(read_recipe(RECIPE, ["stages.3.max_staleness=2", "engine.max_rows=32"]), tmp_path, resume=False)
    rows = [row.values for row in metrics.read(tmp_path / "arithmetic_tiny" / "metrics.jsonl") if row.stage == "3-rl"]
    curve = [row["reward/arithmetic"] for row in rows]
    assert fmean(curve[-10:]) > fmean(curve[:5]) + 0.1, curve
    assert max(row["staleness_mean"] for row in rows) > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"in_flight": "finish"}, "without max_staleness"),
        ({"scheduler": {"lookahead": 2}}, "without max_staleness"),
        ({"max_staleness": 1, "objective": "reinforce"}, "must be of the weights that train"),
        ({"max_staleness": 1, "scheduler": {"batch_groups": 2}}, "leave them out"),
        ({"max_staleness": 1, "scheduler": {"overdue": "mask", "batch_order": "admission"}}, "would do nothing"),
        ({"max_staleness": 1, "scheduler": {"lookahed": 2}}, "did you mean 'lookahead'"),
    ],
)
def test_options_that_do_nothing_or_contradict_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        validate(Config, {"num_steps": 2, **options}, "stage 'rl'")


@pytest.mark.parametrize(
    ("scheduler", "message"),
    [
        ({"domains": {"arithmetc": {"token_budget": 9}}}, "for 'arithmetc', which no entry .* there are: arithmetic"),
        ({"priority": "nowhere.to_be.found"}, "nowhere"),
    ],
)
def test_rules_for_tasks_that_are_not_there_are_refused_at_the_door(scheduler: dict[str, object], message: str) -> None:
    open_stages(recipe(scheduler={"domains": {"arithmetic": {"token_budget": 9}}}))
    with pytest.raises(ConfigError, match=message):
        open_stages(recipe(scheduler=scheduler))
