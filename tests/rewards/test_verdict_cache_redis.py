"""The same cache on a Redis or Valkey server of our own, on a socket in a temporary folder."""

import shutil
import subprocess
import time
from pathlib import Path

import pytest

from burnish.core.errors import ConfigError
from burnish.core.types import Verdict
from burnish.rewards.verdict_cache import Question, open_cache

redis = pytest.importorskip("redis")
SERVER = shutil.which("valkey-server") or shutil.which("redis-server")
pytestmark = pytest.mark.skipif(SERVER is None, reason="neither valkey-server nor redis-server is installed")

QUESTION = Question(verifier="v1", environment="e", domain="code", task="t")
RIGHT = Verdict.scored(0.75, {"passed": 0.75}, "3 of 4 calls right")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("redis")
    socket = folder / "s"
    options = ["--port", "0", "--unixsocket", str(socket), "--save", "", "--appendonly", "no", "--dir", str(folder)]
    process = subprocess.Popen([str(SERVER), *options], stdout=subprocess.DEVNULL)
    while not socket.exists():
        assert process.poll() is None
        time.sleep(0.02)
    yield socket
    process.kill()
    process.wait()


def test_two_hosts_share_verdicts_and_flags(server: Path, tmp_path: Path):
    one, other = (open_cache(f"unix://{server}", secret_file=tmp_path / "secret") for _ in range(2))
    one.keep(QUESTION, ["reply", "answer"], RIGHT)
    found = other.look_up(QUESTION.key("answer"))
    assert found == RIGHT and found is not None and found.from_cache
    other.flag(QUESTION.task_key)
    assert one.look_up(QUESTION.key("answer")) is None
    one.keep(QUESTION, ["answer"], RIGHT)
    assert one.look_up(QUESTION.key("answer")) is None


def test_a_row_written_without_the_secret_is_a_miss(server: Path, tmp_path: Path):
    question = Question(verifier="v1", environment="e", domain="code", task="forged")
    one = open_cache(f"unix://{server}", secret_file=tmp_path / "secret")
    forger = open_cache(f"unix://{server}", secret_file=tmp_path / "another")
    forger.keep(question, ["a"], RIGHT)
    assert forger.look_up(question.key("a")) == RIGHT
    assert one.look_up(question.key("a")) is None
    redis.Redis(unix_socket_path=str(server)).set(f"burnish:verdict:1:{question.key('a')}", b"nonsense")
    assert one.look_up(question.key("a")) is None


def test_a_server_that_is_not_there_is_said_at_the_door(tmp_path: Path):
    with pytest.raises(ConfigError, match="cannot reach the verdict cache") as raised:
        open_cache(f"unix://user:hidden@{tmp_path}/nothing", secret_file=tmp_path / "secret")
    assert "hidden" not in str(raised.value)
