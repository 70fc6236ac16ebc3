import json
import math
import resource
from contextlib import contextmanager

import pytest

from burnish.core.errors import RunFolderError
from burnish.core.metrics import MetricsLog, Row, read


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with MetricsLog(path) as log:
        for step in range(4):
            log.log(step, "sft", loss=2.0 - step / 8)
        log.log(0, "rl", reward=0.25)
    return path


def test_rows_come_back_as_they_were_logged(path):
    assert read(path)[1] == Row(stage="sft", step=1, values={"loss": 1.875})
    assert len(read(path)) == 5


def test_a_line_is_on_disk_when_log_returns(tmp_path):
    log = MetricsLog(tmp_path / "m.jsonl")
    log.log(3, "rl", **{"reward/code": 0.5})
    assert (tmp_path / "m.jsonl").read_text() == '{"stage":"rl","step":3,"reward/code":0.5}\n'
    log.close()
    log.close()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e-300, 0.1 + 0.2])
def test_every_float_survives_in_strict_json(tmp_path, value):
    with MetricsLog(tmp_path / "m.jsonl") as log:
        log.log(0, "rl", kl=value)
    json.loads((tmp_path / "m.jsonl").read_text(), parse_constant=pytest.fail)
    assert repr(read(tmp_path / "m.jsonl")[0].values["kl"]) == repr(value)


@pytest.mark.parametrize("num_bytes", [1, 5, 30])
def test_a_broken_last_line_is_cut_on_opening(path, num_bytes):
    whole = path.read_bytes()
    path.write_bytes(whole[:-num_bytes])
    assert len(read(path)) == 4
    with MetricsLog(path) as log:
        log.log(0, "rl", reward=0.25)
    assert path.read_bytes() == whole


def test_opening_again_appends(path):
    with MetricsLog(path) as log:
        log.log(1, "rl", reward=0.5)
    assert [row.step for row in read(path)] == [0, 1, 2, 3, 0, 1]


def test_truncate_after_drops_later_steps_of_that_stage_only(path):
    with MetricsLog(path) as log:
        log.truncate_after("sft", 1)
        log.log(2, "sft", loss=1.0)
    assert [(row.stage, row.step) for row in read(path)] == [("sft", 0), ("sft", 1), ("rl", 0), ("sft", 2)]


def test_a_broken_line_in_the_middle_is_named(path):
    path.write_text(path.read_text().replace('"step":2', '"stop":2'))
    with pytest.raises(RunFolderError, match="line 3: expected an object"):
        read(path)


def test_a_missing_file_and_a_missing_folder_say_where(tmp_path):
    with pytest.raises(RunFolderError, match=r"nowhere\.jsonl"):
        read(tmp_path / "nowhere.jsonl")
    with pytest.raises(RunFolderError, match="writable run folder"):
        MetricsLog(tmp_path / "nowhere" / "metrics.jsonl")


@contextmanager
def room_for_ten_bytes_more(path):
    """Not a fixture: the limit would hold for what pytest itself writes after the test."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 10, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_one_clear_error_and_leaves_a_log_that_opens(path):
    log = MetricsLog(path)
    with room_for_ten_bytes_more(path):
        for reason in ("only 10 of", "File too large"):
            with pytest.raises(RunFolderError, match=reason):
                log.log(1, "rl", reward=1.0)
    log.close()
    MetricsLog(path).close()
    assert len(read(path)) == 5
