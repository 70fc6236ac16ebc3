"""A cluster fitted from a run folder has the numbers that made the run."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from burnish.commands.plan_fit import position_of
from burnish.core.errors import ConfigError
from burnish.core.ledger import Ledger
from burnish.core.metrics import MetricsLog
from burnish.core.recipe import Recipe, read_recipe
from burnish.core.types import Trajectory, Verdict
from burnish.data import trajectory_files
from burnish.plan.cluster import Cluster
from burnish.plan.fit import fit
from burnish.plan.fit_steps import measured_steps_s
from burnish.plan.simulate import simulate
from burnish.rollout.scheduler_config import SchedulerConfig
from burnish.rollout.stream_log import Began, Chosen, Cut, Event, Judged, Key, Sampled, Trained, to_json

RECIPE = Path(__file__).parents[2] / "recipes/arithmetic_tiny.toml"
POSITION, STAGE = 3, "3-rl"
VERDICT = Verdict.scored(1.0)
LENGTHS = [[5, 9, 3, 7], [12, 4, 6, 6], [8, 30, 2, 10], [20, 21, 7, 9], [5, 5, 14, 3], [17, 2, 2, 40]]


def sampling_s(groups: list[list[int]]) -> float:
    lengths = [length for group in groups for length in group]
    return 0.01 * max(lengths) + 0.002 * (sum(lengths) - max(lengths))


def trajectory(group: int, member: int, length: int) -> Trajectory:
    verdict = Verdict.scored(float(member % 2)) if group or member else Verdict.unscorable("no answer")
    return Trajectory(
        group_id=f"3/{group:07d}", member=member, task_id=f"arithmetic/train/1/{group}", prompt_hash="", seed=0,
        token_ids=(1,) * (length + 2), was_sampled=(False,) * 2 + (True,) * length, logprobs=(0.0,) * (length + 2),
        reply=f"{member}", stop_reason="eos", oldest_version=0, newest_version=0, verdict=verdict, verify_s=0.001,
        sample_s=sampling_s(LENGTHS[group - group % 2 :][:2]),
    )  # fmt: skip


def fitted(run: Path, **options: int) -> Cluster:
    return fit(run, POSITION, SchedulerConfig(batch_groups=2, group_size=4, **options))


@pytest.fixture
def run(tmp_path) -> Path:
    """Two groups a step; a token takes 0.01 + 0.002 (n - 1) s, a training step 0.3 + 0.004 s a token."""
    (tmp_path / "trajectories").mkdir()
    (tmp_path / "recipe.resolved.json").write_text(json.dumps(read_recipe(RECIPE, []).model_dump(mode="json")))
    members = [trajectory(g, m, length) for g, group in enumerate(LENGTHS) for m, length in enumerate(group)]
    trajectory_files.write(tmp_path / f"trajectories/{STAGE}-step-00002.parquet", members)
    with MetricsLog(tmp_path / "metrics.jsonl") as log:
        for step in range(3):
            lengths = [length for group in LENGTHS[2 * step : 2 * step + 2] for length in group]
            total = sum(lengths)
            sample_s = 0.01 * max(lengths) + 0.002 * (total - max(lengths))
            log.log(step, STAGE, num_groups=2, tokens_sampled=total, tokens_trained=total,
                    sample_and_judge_s=sample_s, train_s=0.3 + 0.004 * total)  # fmt: skip
    return tmp_path


def test_times_and_shares_come_back(run):
    found = fitted(run)
    assert (found.engines.token_s, found.engines.token_s_per_member) == pytest.approx((0.01, 0.002))
    assert (found.learner.step_s, found.learner.token_s) == pytest.approx((0.3, 0.004))
    (domain,) = found.domains
    assert domain.name == "arithmetic"
    assert [[attempts[0].tokens for attempts in group.members] for group in domain.groups] == LENGTHS
    assert [[answer.score for answer in group.answers] for group in domain.groups[:2]] == [
        [None, 1, 0, 1],
        [0, 1, 0, 1],
    ]
    assert (found.scheduler.batch_groups, found.scheduler.group_size, found.scheduler.num_batches) == (2, 4, 3)
    assert found.learner.shares_engines


def test_the_simulated_run_takes_about_as_long_as_the_real_one(run):
    found = fitted(run)
    longer = found.model_copy(update={"scheduler": found.scheduler.model_copy(update={"num_batches": 200})})
    sample_s = [0.01 * 12 + 0.002 * 40, 0.01 * 30 + 0.002 * 77, 0.01 * 40 + 0.002 * 48]
    train_s = [0.3 + 0.004 * total for total in (52, 107, 88)]
    measured = (sum(sample_s) + sum(train_s)) / 3
    between_s = [sample_s[1] + train_s[0], sample_s[2] + train_s[1]]
    assert measured_steps_s(run, STAGE) == pytest.approx(between_s)
    assert simulate(longer).step_s == pytest.approx(measured, rel=0.15)


def test_a_folder_without_training_steps_says_what_is_missing(run):
    (run / "metrics.jsonl").write_text("")
    with pytest.raises(ConfigError, match="0 training steps with train_s"):
        fitted(run)


def test_a_run_without_a_single_verdict_is_fitted_too(run):
    path = run / f"trajectories/{STAGE}-step-00002.parquet"
    members = [replace(member, verdict=Verdict.timed_out("slow")) for member in trajectory_files.read(path)]
    trajectory_files.write(path, members)
    (domain,) = fitted(run).domains
    assert {answer.score for group in domain.groups for answer in group.answers} == {None}


def test_asynchronous_times_come_from_what_was_in_the_engine_when(run):
    """Members come and go between updates; an engine step takes 0.01 + 0.002 (n - 1) s."""
    one, two, three = (Key(number, 0, 0) for number in range(3))
    events: list[tuple[int, list[Event]]] = [
        (0, [Began(one), Began(two)]),
        (5, [Sampled(one, 0, 0, "")]),  # 5 steps of 2
        (9, [Trained(0, 0, (Chosen(0, (0,)),)), Began(three)]),  # 4 of 1
        (19, [Cut(two)]),  # 10 of 2
        (22, [Trained(1, 1, ())]),  # 3 of 1
        (23, [Sampled(three, 1, 1, ""), Began(one), Trained(2, 2, ())]),  # 1 of 1
    ]
    ledger = Ledger(run / "ledger.sqlite")
    for tick, several in events:
        ledger.append_events(POSITION, tick, to_json(several))
    ledger.close()
    (run / "metrics.jsonl").unlink()
    with MetricsLog(run / "metrics.jsonl") as log:
        for step, (num_steps, num_tokens) in enumerate([(9, 14), (13, 23), (1, 1)]):
            log.log(step, STAGE, num_groups=2, tokens_sampled=1, tokens_trained=100 + step, idle_s=0.5, train_s=0.25,
                    sample_s=0.01 * num_steps + 0.002 * (num_tokens - num_steps))  # fmt: skip
    found = fitted(run, max_staleness=2)
    assert (found.engines.token_s, found.engines.token_s_per_member) == pytest.approx((0.01, 0.002))
    assert measured_steps_s(run, STAGE) == pytest.approx([0.75 + 0.15, 0.75 + 0.01])


def judged(run: Path, *members: tuple[str, float, float, bool]) -> Cluster:
    """Fit a run whose first group has these replies, times of judging, waits, and whether they were looked up."""
    path = run / f"trajectories/{STAGE}-step-00002.parquet"
    before = trajectory_files.read(path)
    first = [
        replace(member, reply=reply, verify_s=waited_s, verdict=replace(VERDICT, took_s=took_s, from_cache=from_cache))
        for member, (reply, took_s, waited_s, from_cache) in zip(before[:4], members, strict=True)
    ]
    trajectory_files.write(path, [*first, *before[4:]])
    return fitted(run)


def test_equal_replies_are_one_answer_that_takes_what_its_verdict_took_without_the_queue(run):
    (domain,) = judged(
        run, ("a", 2.0, 9.0, False), ("a", 0.0, 8.0, False), ("b", 1.0, 1.5, False), ("a", 4.0, 5.0, False)
    ).domains
    group = domain.groups[0]
    assert [answer.verify_s for answer in group.answers] == [3.0, 1.0]
    assert [attempts[0].answer for attempts in group.members] == [0, 0, 1, 0]
    assert not domain.keeps_verdicts


def test_what_was_looked_up_takes_no_time_and_what_was_joined_elsewhere_as_long_as_it_waited(run):
    (domain,) = judged(
        run, ("a", 0.0, 0.1, True), ("b", 0.0, 0.75, False), ("c", 1.0, 1.0, False), ("c", 0.0, 0.1, True)
    ).domains
    assert [answer.verify_s for answer in domain.groups[0].answers] == [0.0, 0.75, 1.0]
    assert domain.keeps_verdicts


def test_attempts_that_failed_before_come_from_the_log_and_equal_ones_share_their_time(run):
    ledger = Ledger(run / "ledger.sqlite")
    began = [Began(Key(1, member, 0)) for member in range(4)]
    failed = [Judged(Key(1, 2, 0), "timeout", 0.0, 8), Judged(Key(1, 0, 0), "timeout", 30.0, 7)]
    again = [Began(Key(1, 0, 1)), Began(Key(1, 2, 1)), Judged(Key(1, 2, 1), "timeout", 9.0, 9)]
    for tick, events in enumerate([began, failed, again, [Trained(0, 0, ()), Trained(1, 1, ()), Trained(2, 2, ())]]):
        ledger.append_events(POSITION, tick, to_json(events))
    ledger.close()
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    (run / "metrics.jsonl").unlink()
    with MetricsLog(run / "metrics.jsonl") as log:
        for row in rows:
            log.log(row.pop("step"), row.pop("stage"), sample_s=row.pop("sample_and_judge_s"), **row)
    (domain,) = fitted(run, max_staleness=1).domains
    group = domain.groups[1]
    assert [[attempt.tokens for attempt in attempts] for attempts in group.members] == [[7, 12], [4], [8, 6], [6]]
    assert group.members[0][0].answer == group.members[2][0].answer
    slow = group.answers[group.members[0][0].answer]
    assert (slow.verify_s, slow.score, slow.failure) == (30.0, None, "timeout")


def test_groups_of_which_members_are_missing_are_left_out(run):
    path = run / f"trajectories/{STAGE}-step-00002.parquet"
    trajectory_files.write(path, trajectory_files.read(path)[1:])
    assert [len(group.members) for group in fitted(run).domains[0].groups] == [4] * 5


def test_a_step_in_which_no_group_had_signal_counts_as_a_step(run):
    with MetricsLog(run / "metrics.jsonl") as log:
        log.log(3, STAGE, num_groups=0, tokens_sampled=1, sample_and_judge_s=0.0, train_s=0.0)
    found = fitted(run)
    assert found.scheduler.num_batches == 4
    assert (found.learner.step_s, found.learner.token_s) == pytest.approx((0.3, 0.004))


def test_of_two_stages_one_must_be_named():
    recipe = Recipe(name="r", tasks=[{"domain": "arithmetic"}], stages=[{"use": "rl"}, {"use": "sft"}, {"use": "rl"}])
    assert position_of(recipe, "2-rl") == 2
    assert position_of(recipe.model_copy(update={"stages": recipe.stages[:2]}), None) == 0
    with pytest.raises(ConfigError, match=r"2 stages 'rl' \(0-rl, 2-rl\); choose one by --stage"):
        position_of(recipe, None)
    with pytest.raises(ConfigError, match="no stage '1-rl'; its stages 'rl' are: 0-rl, 2-rl"):
        position_of(recipe, "1-rl")


def test_a_run_whose_engine_is_in_workers_is_refused(run):
    path = run / "recipe.resolved.json"
    recipe = json.loads(path.read_text())
    path.write_text(json.dumps(recipe | {"runtime": {"engine_replicas": 2}}))
    with pytest.raises(ConfigError, match=r"runtime\.engine_replicas = 2"):
        fitted(run)
