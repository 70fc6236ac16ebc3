"""The cache on SQLite: what is kept, what is a miss, and what survives kills, damage and crowds."""

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from burnish.core.errors import ConfigError
from burnish.core.types import Verdict
from burnish.rewards.verdict_cache import Cache, Question, open_cache

QUESTION = Question(verifier="v1", environment="e", domain="code", task="t")
RIGHT = Verdict.scored(0.75, {"passed": 0.75}, "3 of 4 calls right")


@pytest.fixture
def cache(tmp_path: Path):
    opened = open_cache(str(tmp_path / "verdicts.sqlite"))
    yield opened
    opened.close()


def look_up(cache: Cache, answer: str, question: Question = QUESTION) -> Verdict | None:
    return cache.look_up(question.key(answer))


def test_what_was_kept_comes_back_marked_under_each_form(cache: Cache):
    cache.keep(QUESTION, ["reply 1", "answer 1"], RIGHT)
    for form in ("reply 1", "answer 1"):
        found = look_up(cache, form)
        assert found == RIGHT
        assert found is not None and found.from_cache
    assert look_up(cache, "reply 2") is None


@pytest.mark.parametrize(
    "other",
    [
        Question(verifier="v2", environment="e", domain="code", task="t"),
        Question(verifier="v1", environment="f", domain="code", task="t"),
        Question(verifier="v1", environment="e", domain="rg", task="t"),
        Question(verifier="v1", environment="e", domain="code", task="u"),
    ],
)
def test_another_verifier_environment_domain_or_task_is_a_miss(cache: Cache, other: Question):
    cache.keep(QUESTION, ["a"], RIGHT)
    assert look_up(cache, "a", other) is None


@pytest.mark.parametrize(
    "verdict", [Verdict.timed_out("t"), Verdict.infrastructure_error("i"), Verdict.unscorable("u")]
)
def test_only_scored_verdicts_are_kept(cache: Cache, verdict: Verdict):
    cache.keep(QUESTION, ["a"], verdict)
    assert look_up(cache, "a") is None


@pytest.mark.parametrize("owner", [QUESTION.task_key, QUESTION.domain_key])
def test_a_flag_forgets_and_forbids_for_good(tmp_path: Path, owner: str):
    for _ in range(2):
        cache = open_cache(str(tmp_path / "v.sqlite"))
        cache.keep(QUESTION, ["a"], RIGHT)
        cache.flag(owner)
        assert look_up(cache, "a") is None
        cache.keep(QUESTION, ["a"], RIGHT)
        assert look_up(cache, "a") is None
        cache.close()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE verdicts SET content = substr(content, 1, 32) || '[1.0,{},\"\"]'",
        "UPDATE verdicts SET content = replace(content, '0.75', '1.00')",
        "UPDATE verdicts SET content = x''",
        "UPDATE verdicts SET content = 'text'",
        "UPDATE verdicts SET content = (SELECT content FROM verdicts v WHERE v.key != verdicts.key)",
    ],
)
def test_a_damaged_copied_or_forged_row_is_a_miss(tmp_path: Path, cache: Cache, damage: str):
    cache.keep(QUESTION, ["a"], RIGHT)
    cache.keep(QUESTION, ["b"], Verdict.scored(1.0))
    with sqlite3.connect(tmp_path / "verdicts.sqlite") as db:
        db.execute(damage)
    assert look_up(cache, "a") is None


def test_rows_under_another_secret_are_misses(tmp_path: Path, cache: Cache):
    cache.keep(QUESTION, ["a"], RIGHT)
    cache.close()
    secret = tmp_path / "verdicts.sqlite.secret"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    secret.write_text("0" * 64)
    other = open_cache(str(tmp_path / "verdicts.sqlite"))
    assert look_up(other, "a") is None
    other.close()


@pytest.mark.parametrize("content", [b"no database at all" * 500, b"SQLite format 3\0" + b"\xff" * 8000])
def test_a_damaged_file_is_set_aside_and_said(tmp_path: Path, content: bytes):
    (tmp_path / "v.sqlite").write_bytes(content)
    with pytest.warns(RuntimeWarning, match="set aside"):
        cache = open_cache(str(tmp_path / "v.sqlite"))
    cache.keep(QUESTION, ["a"], RIGHT)
    assert look_up(cache, "a") == RIGHT
    assert [path.read_bytes() for path in tmp_path.glob("*.damaged-*")] == [content]
    cache.close()


def test_a_place_that_cannot_be_written_is_a_clear_error(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="choose another place"):
        open_cache(str(tmp_path / "file" / "v.sqlite"))
    with pytest.raises(ConfigError, match=r"verify\.secret_file"):
        open_cache("redis://127.0.0.1:1")


def test_a_cache_that_stops_working_is_a_miss_and_one_warning(tmp_path: Path, cache: Cache):
    cache.close()
    with pytest.warns(RuntimeWarning, match="going on without it"):
        assert look_up(cache, "a") is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.keep(QUESTION, ["a"], RIGHT)
        cache.flag(QUESTION.task_key)


def test_what_was_used_longest_ago_goes_first(tmp_path: Path):
    cache = open_cache(str(tmp_path / "v.sqlite"), most_entries=50)
    for number in range(200):
        cache.keep(QUESTION, [str(number)], RIGHT)
    assert look_up(cache, "0") is not None  # used again: it stays
    cache.keep(QUESTION, ["200"], RIGHT)
    assert [number for number in range(201) if look_up(cache, str(number))] == [0, *range(157, 201)]
    cache.close()


WRITER = """
import sys
from burnish.core.types import Verdict
from burnish.rewards.verdict_cache import Question, open_cache
cache = open_cache(sys.argv[1])
question = Question(verifier="v1", environment="e", domain="code", task="t")
print("ready", flush=True)
number = 0
while number < int(sys.argv[3]):
    cache.keep(question, [f"{sys.argv[2]} {number}"], Verdict.scored(0.5, {}, "x" * 200))
    number += 1
    print(number, flush=True)
"""


def writer(place: Path, name: str, num: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(place), name, str(num)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])


def test_several_processes_write_and_another_reads(tmp_path: Path):
    place = tmp_path / "v.sqlite"
    writers = [writer(place, str(name), 60) for name in range(3)]
    cache = open_cache(str(place))
    while any(process.poll() is None for process in writers):
        look_up(cache, "0 1")
        time.sleep(0.01)
    assert all(look_up(cache, f"{name} {number}") for name in range(3) for number in range(60))
    cache.close()
    for process in writers:
        assert process.stdout is not None
        process.stdout.close()


def test_a_kill_loses_no_row_that_was_kept(tmp_path: Path):
    process = writer(tmp_path / "v.sqlite", "a", 10**6)
    assert process.stdout is not None
    num_kept = 0
    while num_kept < 30:
        line = process.stdout.readline().strip()
        num_kept = int(line) if line.isdigit() else 0
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    cache = open_cache(str(tmp_path / "v.sqlite"))
    assert all(look_up(cache, f"a {number}") for number in range(num_kept))
    cache.keep(QUESTION, ["b"], RIGHT)
    assert look_up(cache, "b") == RIGHT
    cache.close()
