"""A stage's course: kept in the ledger, folded again after a kill, and followed by draws that follow from it alone."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from burnish.core.config import validate
from burnish.core.errors import ConfigError, InvariantError
from burnish.core.ledger import Ledger
from burnish.core.recipe import Recipe, TaskEntry
from burnish.core.types import Trajectory, Verdict
from burnish.domains import open_domain
from burnish.rollout.collect import StepRollouts
from burnish.rollout.groups import Group
from burnish.rollout.mixture import Mixture, Source
from burnish.stages.course_report import view
from burnish.stages.curriculum import Course, check_signal, final_state, plan_of
from burnish.stages.rl_config import Config
from burnish.stages.rl_replay import replay
from tests.stages.streams import ScriptedVerdicts, recipe, session_of, train

STAGE, PER_STEP = 2, 6
ENTERS = {"after": ["a"], "when_reward": 0.4, "over": 4}
ENTRIES = [
    TaskEntry.model_validate({"domain": "arithmetic", "group": name, "options": {"largest": 50}} | rules)
    for name, rules in [("a", {}), ("b", {"enters": ENTERS}), ("c", {"silent": {"over": 3, "weight": 0.5}})]
]
MIXTURE = {"mixture": {"kind": "signal", "every": 2, "over": 4}}


def config(**options: Any) -> Config:
    return validate(Config, {"num_steps": 20, **options}, "stage 'rl'")


def course_on(ledger: Ledger, **options: Any) -> Course:
    sources = [Source(entry=entry, domain=open_domain(entry.domain, entry.options)) for entry in ENTRIES]
    plan = plan_of(config(**options), ENTRIES)
    return Course(
        plan, ledger, STAGE, lambda segments: Mixture(sources, seed=1, exclude=frozenset(), segments=segments)
    )


def take(course: Course, ledger: Ledger, step: int, shift: int = 0) -> list[str]:
    """A step whose rewards follow from its draws; returns the tasks."""
    first = ledger.num_groups_before(STAGE, step)
    groups = [_group(course, ledger, step, number, shift) for number in range(first, first + PER_STEP)]
    course.observe(step, StepRollouts(groups[::2], groups[1::2]))
    return [course.mixture.draw(number).task.id for number in range(first, first + PER_STEP)]


def _group(course: Course, ledger: Ledger, step: int, number: int, shift: int) -> Group:
    draw = course.mixture.draw(number)
    name, group_id = draw.source.entry.report_name, f"{STAGE}/{number:07d}"
    ledger.issue(STAGE, step, group_id, draw.task.id, draw.task.prompt_hash)
    scores = [0.0, 0.0] if name == "c" else [float((number + shift) % 3 > 0), float(number % 2)]
    members = [
        Trajectory(
            group_id=group_id, member=member, task_id=draw.task.id, prompt_hash=draw.task.prompt_hash, seed=0,
            token_ids=(1,), was_sampled=(True,), logprobs=(-1.0,), reply="", stop_reason="eos", oldest_version=0,
            newest_version=0, verdict=Verdict.scored(score, {"is_number": score}),
        )
        for member, score in enumerate(scores)
    ]  # fmt: skip
    return Group(group_id, name, tuple(members))


def test_a_course_that_is_taken_up_at_any_step_draws_and_notes_what_an_unbroken_one_does(tmp_path: Path) -> None:
    whole = Ledger(tmp_path / "whole.sqlite")
    course = course_on(whole, **MIXTURE)
    tasks = [take(course, whole, step) for step in range(8)]
    assert {row.kind for row in whole.course(STAGE)} == {"seen", "change"}
    assert course.state.standings["b"].phase == "active"
    for checkpoint in range(8):
        broken = Ledger(tmp_path / f"broken-{checkpoint}.sqlite")
        ended = course_on(broken, **MIXTURE)
        for step in range(checkpoint + 1):  # one step more than the checkpoint has
            take(ended, broken, step)
        again = course_on(broken, **MIXTURE)
        again.restore(checkpoint)
        assert [take(again, broken, step) for step in range(checkpoint, 8)] == tasks[checkpoint:]
        assert broken.course(STAGE) == whole.course(STAGE)
        assert again.state == course.state


def test_a_step_that_is_repeated_otherwise_than_it_was_stops_the_run(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    course = course_on(ledger, **MIXTURE)
    for step in range(2):
        take(course, ledger, step)
    again = course_on(ledger, **MIXTURE)
    again.restore(1)
    with pytest.raises(InvariantError, match="before step 2: the ledger has seen"):
        take(again, ledger, 1, shift=1)


def test_shares_that_cannot_change_leave_no_trace(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    sources = [Source(entry=TaskEntry(domain="arithmetic"), domain=open_domain("arithmetic"))]
    plan = plan_of(config(), [source.entry for source in sources])
    course = Course(plan, ledger, STAGE, lambda segments: Mixture(sources, seed=1, exclude=frozenset()))
    take(course, ledger, 0)
    assert ledger.course(STAGE) == []


def test_after_a_roll_back_the_tasks_since_the_promoted_checkpoint_come_again(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    guard = {"every": 2, "suites": ["a"]}
    course = course_on(ledger, guard=guard)
    take(course, ledger, 0)
    course.decide(1, "promote", [], {"compared": []})
    lost = [*take(course, ledger, 1), *take(course, ledger, 2)]
    before = course.state
    course.decide(3, "roll_back", ["a"], {"compared": []})
    assert course.promoted_step(3) == 1
    assert course.state.standings != before.standings
    assert course.state.factors["c"] == 0.25
    again = course_on(ledger, guard=guard)
    again.restore(3)
    assert again.state == course.state
    ours, theirs = take(course, ledger, 3), take(again, ledger, 3)
    assert ours == theirs
    assert set(ours) <= {*lost, *take(course, ledger, 4)}
    assert len(set(ours) & set(lost)) >= 3


def test_the_report_has_a_row_for_each_domain_and_says_why_shares_changed(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    course = course_on(ledger, **MIXTURE)
    for step in range(8):
        take(course, ledger, step)
    shown = view("2-rl", ledger.course(STAGE), final_state(course.plan, ledger.course(STAGE)))
    assert [one.name for one in shown.domains] == ["a", "b", "c"]
    assert sum(one.num_groups for one in shown.domains) == 8 * PER_STEP
    assert any("b is active: a has mean reward" in why for _, why in shown.changes)
    assert any("c is silent" in why for _, why in shown.changes)


def test_signal_cannot_be_measured_in_groups_of_one() -> None:
    plan = plan_of(config(mixture={"kind": "signal"}), ENTRIES)
    with pytest.raises(ConfigError, match="'b' are sampled once a prompt"):
        check_signal(plan, {"a": 2, "b": 1})
    check_signal(plan_of(config(), ENTRIES[:1]), {"a": 1})


def two_domains() -> Recipe:
    made = recipe(num_steps=6, mixture={"kind": "signal", "every": 1, "over": 2})
    (entry,) = made.tasks
    tasks = [
        entry.model_copy(update={"group": name, "options": {"largest": 9 + len(name)}}) for name in ("one", "other")
    ]
    return made.model_copy(update={"tasks": tasks})


@pytest.mark.slow
def test_an_asynchronous_run_whose_shares_change_is_resumed_and_repeated_bit_for_bit(tmp_path: Path) -> None:
    with session_of(two_domains(), tmp_path) as session:
        train(session, ScriptedVerdicts(1), num_steps=3)
    with session_of(two_domains(), tmp_path, resume=True) as session:
        train(session, ScriptedVerdicts(2))
    rows = Ledger(tmp_path / "stream" / "ledger.sqlite").course(0)
    assert sum(row.kind == "change" for row in rows) > 3
    (repeated,) = replay(tmp_path / "stream")
    assert repeated.is_equal


def test_corrections_favour_tasks_of_a_source_that_fails_and_draw_more_of_them(tmp_path: Path) -> None:
    entries = [TaskEntry(domain="documents")]
    sources = [Source(entry=entries[0], domain=open_domain("documents", {}))]
    shares = {}
    for name, options in {"without": {}, "with": {"corrections": {"every": 6, "least_failures": 2}}}.items():
        ledger = Ledger(tmp_path / f"{name}.sqlite")
        course = Course(
            plan_of(config(**options), entries), ledger, STAGE,
            lambda segments: Mixture(sources, seed=1, exclude=frozenset(), segments=segments),
        )  # fmt: skip
        weak = course.mixture.draw(0).task.source
        for step in range(6):
            numbers = range(step * 12, step * 12 + 12)
            course.observe(step, StepRollouts([_judged(course, ledger, step, number, weak) for number in numbers], []))
        drawn = [course.mixture.draw(number).task.source for number in range(72, 132)]
        shares[name] = drawn.count(weak) / len(drawn)
    assert shares["with"] > shares["without"]


def _judged(course: Course, ledger: Ledger, step: int, number: int, weak: str) -> Group:
    """Replies that are right, but for those to tasks of one source."""
    draw = course.mixture.draw(number)
    group_id, score = f"{STAGE}/{number:07d}", float(draw.task.source != weak)
    ledger.issue(STAGE, step, group_id, draw.task.id, draw.task.prompt_hash)
    member = Trajectory(
        group_id=group_id, member=0, task_id=draw.task.id, prompt_hash=draw.task.prompt_hash, seed=0, token_ids=(1,),
        was_sampled=(True,), logprobs=(-1.0,), reply="", stop_reason="eos", oldest_version=0, newest_version=0,
        verdict=Verdict.scored(score, {"right": score}),
    )  # fmt: skip
    return Group(group_id, "documents", (member, replace(member, member=1)))
