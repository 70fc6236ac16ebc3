from dataclasses import replace
from pathlib import Path

import pytest

from burnish.core.errors import RunFolderError
from burnish.core.ledger import PENDING, Ledger
from burnish.core.types import Trajectory, Verdict


def trajectory(group_id: str, member: int, reply: str = "a") -> Trajectory:
    return Trajectory(
        group_id=group_id, member=member, task_id="t", prompt_hash="p", seed=1, token_ids=(1, 2),
        was_sampled=(False, True), logprobs=(0.0, -0.1), reply=reply, stop_reason="eos", oldest_version=0,
        newest_version=0, verdict=Verdict.scored(0.5),
    )  # fmt: skip


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.sqlite")


def test_what_was_recorded_is_there_after_a_reopening(ledger: Ledger, tmp_path: Path) -> None:
    ledger.issue(1, 0, "1/0", "task", "hash")
    ledger.record(trajectory("1/0", 1))
    assert Ledger(tmp_path / "ledger.sqlite").rollouts("1/0") == [trajectory("1/0", 1)]


def test_the_first_record_of_a_member_stays(ledger: Ledger) -> None:
    ledger.issue(1, 0, "1/0", "task", "hash")
    ledger.record(trajectory("1/0", 1, "first"))
    ledger.record(trajectory("1/0", 1, "second"))
    assert [r.reply for r in ledger.rollouts("1/0")] == ["first"]


def test_a_group_is_trained_once_and_its_rollouts_then_leave(ledger: Ledger) -> None:
    for step, group_id in enumerate(["1/0", "1/1", "1/2"]):
        ledger.issue(1, step, group_id, "task", "hash")
        ledger.record(trajectory(group_id, 0))
    ledger.mark_ready(["1/0", "1/1"])
    ledger.mark_dropped(["1/1"])
    ledger.commit_steps(1, 1)
    assert ledger.group_counts(1) == (1, 0, 1, 1)  # issued, ready, trained, dropped
    assert [r.group_id for r in ledger.rollouts_up_to(1, 9)] == ["1/2"]


def test_issuing_again_does_not_bring_a_trained_group_back(ledger: Ledger) -> None:
    ledger.issue(1, 0, "1/0", "task", "hash")
    ledger.mark_ready(["1/0"])
    ledger.commit_steps(1, 0)
    ledger.issue(1, 0, "1/0", "task", "hash")
    ledger.mark_ready(["1/0"])
    assert ledger.group_counts(1).trained == 1


def test_draws_are_counted_by_the_steps_that_issued_them(ledger: Ledger) -> None:
    for step, group_id in [(0, "1/0"), (0, "1/1"), (1, "1/2")]:
        ledger.issue(1, step, group_id, "task", "hash")
    ledger.issue(2, 0, "2/0", "task", "hash")
    assert [ledger.num_groups_before(1, step) for step in (0, 1, 2)] == [0, 2, 3]


def write_together(ledger: Ledger, fault: Exception | None) -> None:
    with ledger.together():
        ledger.issue(1, PENDING, "1/0", "task", "hash")
        ledger.append_events(1, 5, [["b", 0, 0, 0]])
        if fault:
            raise fault


def test_what_is_written_together_is_there_at_once_or_not_at_all(ledger: Ledger) -> None:
    with pytest.raises(KeyError):
        write_together(ledger, KeyError())
    assert (ledger.pending(1), ledger.events(1)) == ([], [])
    write_together(ledger, None)
    assert (ledger.pending(1), ledger.events(1)) == (["1/0"], [(5, [["b", 0, 0, 0]])])


def test_a_pending_group_keeps_its_rollouts_until_a_step_consumes_it(ledger: Ledger) -> None:
    for number in range(3):
        ledger.issue(1, PENDING, f"1/{number}", "task", "hash")
        ledger.replace(trajectory(f"1/{number}", 0))
    ledger.consume(4, ready=["1/0"], dropped=["1/1"])
    ledger.commit_steps(1, 9)
    assert ledger.group_counts(1) == (1, 0, 1, 1)
    assert (ledger.pending(1), ledger.dropped_in(1, 4)) == (["1/2"], ["1/1"])
    assert ledger.rollouts("1/2") and not ledger.rollouts("1/0") and not ledger.rollouts("1/1")


def test_a_group_is_consumed_once(ledger: Ledger) -> None:
    ledger.issue(1, PENDING, "1/0", "task", "hash")
    ledger.consume(4, ready=["1/0"])
    ledger.consume(5, dropped=["1/0"])
    assert (ledger.group_counts(1).ready, ledger.dropped_in(1, 5)) == (1, [])


def test_only_judged_rollouts_move_to_a_file(ledger: Ledger) -> None:
    ledger.issue(1, 2, "1/0", "task", "hash")
    ledger.replace(replace(trajectory("1/0", 0), verdict=None))
    ledger.replace(replace(trajectory("1/0", 1), verdict=None))
    ledger.replace(trajectory("1/0", 1))
    assert [one.member for one in ledger.rollouts_up_to(1, 2)] == [1]


def test_events_are_kept_in_order_and_by_stage(ledger: Ledger) -> None:
    for tick, stage in ((0, 1), (0, 2), (7, 1), (3, 2)):
        ledger.append_events(stage, tick, [tick])
    assert ledger.events(1) == [(0, [0]), (7, [7])]


def test_what_a_prompt_scored_is_remembered_newest_first_and_by_stage(ledger: Ledger) -> None:
    assert ledger.past_scores(1, "p") is None
    for step, scores in enumerate(([0.0, 1.0], [1.0, 1.0], [0.5])):
        ledger.note_scores(1, "p", step, scores)
    ledger.note_scores(2, "p", 9, [0.0])
    assert ledger.past_scores(1, "p", most_groups=2) == (2, (0.5, 1.0, 1.0))


def test_a_stage_without_a_result_is_not_finished(ledger: Ledger) -> None:
    assert ledger.stage_result(0) is None
    ledger.finish_stage(0, "0-sft", {"checkpoint": "0-sft"})
    assert ledger.stage_result(0) == {"checkpoint": "0-sft"}


def test_a_file_that_is_no_ledger_gives_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(RunFolderError, match="cannot open the ledger"):
        Ledger(path)


def test_a_damaged_ledger_is_named(ledger: Ledger, tmp_path: Path) -> None:
    ledger.issue(1, 0, "1/0", "task", "hash")
    ledger.close()
    path = tmp_path / "ledger.sqlite"
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    with pytest.raises(RunFolderError, match="ledger"):
        Ledger(path).num_groups_before(1, 5)
