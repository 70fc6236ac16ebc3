"""What a run that stopped by a fault leaves behind."""

from pathlib import Path

import pytest

from burnish.core import flight
from burnish.core.errors import InvariantError, RunFolderError
from burnish.core.types import Trajectory


def reply(member: int, logprob: float = -0.5) -> Trajectory:
    return Trajectory(
        group_id="0/1", member=member, task_id="t", prompt_hash="h", seed=1, token_ids=(1, 2),
        was_sampled=(False, True), logprobs=(0.0, logprob), reply="\ud800 four", stop_reason="eos",
        oldest_version=3, newest_version=3,
    )  # fmt: skip


def test_an_error_leaves_the_last_steps_the_stacks_and_the_newest_metrics(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"stage":"0-rl","step":6,"loss":1.0}\n')
    recorder = flight.Recorder(tmp_path, num_steps=2)
    for step in range(8):
        recorder.note("0-rl", step, version=step, members=[reply(step, float("nan"))])
    told = r"the sky fell \(the last steps are in .*0-rl-7.json"
    with pytest.raises(InvariantError, match=told), recorder.keeping("0-rl"):
        raise InvariantError("the sky fell")
    found = flight.newest(tmp_path)
    assert found is not None
    path, record = found
    assert path == tmp_path / "flight" / "0-rl-7.json"
    assert (record.error, record.message, record.stage) == ("InvariantError", "the sky fell", "0-rl")
    assert "test_flight.py" in record.traceback
    assert any(name.startswith("MainThread") for name in record.stacks)
    assert [(step.step, step.version) for step in record.steps] == [(6, 6), (7, 7)]
    kept = Trajectory.from_json(record.steps[-1].rollouts[0])
    assert kept.reply == "\ud800 four"
    assert kept.logprobs[1] != kept.logprobs[1]
    assert record.metrics == ['{"stage":"0-rl","step":6,"loss":1.0}']


def test_an_error_of_a_library_goes_on_as_it_is_and_names_the_record(tmp_path: Path) -> None:
    error = ZeroDivisionError("by nought")
    with pytest.raises(ZeroDivisionError) as raised, flight.Recorder(tmp_path).keeping("1-sft"):
        raise error
    assert raised.value is error
    assert "1-sft-start.json" in raised.value.__notes__[0]


def test_where_no_record_can_be_written_the_error_itself_is_what_is_raised(tmp_path: Path) -> None:
    (tmp_path / flight.FOLDER).write_text("a file where the folder would be")
    with pytest.raises(ZeroDivisionError) as raised, flight.Recorder(tmp_path).keeping("1-sft"):
        raise ZeroDivisionError
    assert "no flight record could be written" in raised.value.__notes__[0]


def test_ctrl_c_leaves_no_record(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), flight.Recorder(tmp_path).keeping("0-rl"):
        raise KeyboardInterrupt
    assert flight.newest(tmp_path) is None


def test_a_file_that_is_no_record_is_named(tmp_path: Path) -> None:
    (tmp_path / flight.FOLDER).mkdir()
    (tmp_path / flight.FOLDER / "x.json").write_text("{}")
    with pytest.raises(RunFolderError, match=r"x\.json.*remove the file"):
        flight.newest(tmp_path)


def test_a_record_of_another_format_is_not_read_as_one_of_this(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), flight.Recorder(tmp_path).keeping("1-sft"):
        raise ZeroDivisionError
    (file,) = (tmp_path / flight.FOLDER).iterdir()
    file.write_text(file.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(RunFolderError, match="no flight record of format 1"):
        flight.newest(tmp_path)
