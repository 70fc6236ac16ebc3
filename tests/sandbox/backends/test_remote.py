"""`burnish sandbox serve` in a process of its own on a free port of this host, and `remote` talking to it."""

import asyncio
import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from burnish.core.errors import ConfigError, SandboxError
from burnish.sandbox import Job, ResourceLimits, backends
from burnish.sandbox.backends import remote
from burnish.sandbox.place import Command, PlaceSpec

pytest.importorskip("uvicorn")

TOKEN = "0123456789abcdef-of-a-test"
OPENSSL = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=localhost"
LIMITS = ResourceLimits(wall_s=30.0)


@contextmanager
def served(*arguments: str) -> Iterator[str]:
    """Start the server, give its address, and end it."""
    start = [sys.executable, "-c", "from burnish.cli import main; main()", "sandbox", "serve", "--port", "0"]
    environment = {**os.environ, "BURNISH_SANDBOX_TOKEN": TOKEN}
    with subprocess.Popen([*start, *arguments], stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            assert " on http" in line, line
            yield line.split()[-1]
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served("--isolation", "none", "--workers", "1") as url:
        yield url


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURNISH_SANDBOX_TOKEN", TOKEN)


class Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes


def ask(url: str, method: str, path: str, body: bytes = b"", token: str = TOKEN) -> Answer:
    with closing(http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)) as connection:
        connection.request(method, path, body, {"Authorization": f"Bearer {token}"})
        with connection.getresponse() as response:
            return Answer(response.status, response.headers, response.read())


def with_remote(url, work, **options):
    async def run():
        async with backends.open_backend("remote", {"url": url, **options}, num_workers=4) as backend:
            return await work(backend)

    return asyncio.run(run())


def test_a_job_goes_there_and_its_outcome_comes_back(address):
    job = Job(source="import sys; print(input()); sys.exit(3)", stdin=b"\xff\n", files={"a": b"\0"}, limits=LIMITS)
    outcome = with_remote(address, lambda backend: backend.run(job))
    assert (outcome.ending, outcome.exit_code, outcome.stdout) == ("exited", 3, b"\xff\n")


def test_a_place_lives_over_there_through_write_run_read_snapshot_and_restore(address, tmp_path):
    (tmp_path / "layer.txt").write_text("of the layer")

    async def work(backend):
        place = await backend.start(PlaceSpec(layers=(tmp_path,), needs=frozenset(), env={"X": "1"}))
        await place.write("a/b", b"\x001")
        name = await place.snapshot()
        outcome = await place.run(Command(argv=("/bin/sh", "-c", "cat layer.txt; echo $X; cat > a/b"), stdin=b"2"))
        changed = await place.read("a/b", 10)
        await place.restore(name)
        restored = await place.read("a/b", 10)
        with pytest.raises(SandboxError, match="read in a place"):
            await place.read("/etc/hostname/x", 10)
        await place.stop()
        with pytest.raises(SandboxError, match="stopped"):
            await place.read("a/b", 10)
        return outcome.stdout, changed, restored

    assert with_remote(address, work) == (b"of the layer1\n", b"2", b"\x001")


def test_what_the_servers_backend_cannot_give_is_refused_by_name(address):
    with pytest.raises(SandboxError, match="'remote' cannot give files, network"):
        with_remote(address, lambda backend: backend.start(PlaceSpec()))


@pytest.mark.parametrize("wrong", ["", "wrong", TOKEN[:-1], TOKEN + "x"])
def test_without_the_token_nothing_is_answered(address, wrong):
    assert ask(address, "POST", "/v1/jobs", b"{}", wrong).status == 401


def test_a_wrong_token_is_a_plain_message(address, monkeypatch):
    monkeypatch.setenv("BURNISH_SANDBOX_TOKEN", "something-else-entirely")
    assert "401" in backends.missing("remote", {"url": address})[0]


def test_a_body_that_is_no_job_is_refused_and_says_where(address):
    response = ask(address, "POST", "/v1/jobs", b'{"source": 1}')
    assert response.status == 400 and "source" in json.loads(response.body)["error"]


HOLD = "import os, time\nopen({0!r} + '.began', 'w').close()\nwhile not os.path.exists({0!r}): time.sleep(.01)"
"""A job of a backend that isolates nothing, which says that it has begun and ends when it is let go."""


async def has_begun(path: Path) -> None:
    while not Path(f"{path}.began").exists():
        await asyncio.sleep(0.01)


def test_a_full_server_says_when_to_ask_again_and_the_client_does(address, tmp_path):
    async def work(backend):
        job = Job(source=HOLD.format(str(tmp_path / "go")), limits=LIMITS)
        slow = [asyncio.create_task(backend.run(job)) for _ in "12"]
        await has_begun(tmp_path / "go")
        answer = await asyncio.to_thread(ask, address, "POST", "/v1/jobs", b"{}")
        (tmp_path / "go").touch()
        return answer.status, answer.headers["Retry-After"], [(await job).ending for job in slow]

    assert with_remote(address, work) == (503, "1", ["exited", "exited"])


def test_a_client_that_waits_no_longer_is_told_that_the_server_is_full(address, tmp_path):
    async def work(backend):
        slow = asyncio.create_task(backend.run(Job(source=HOLD.format(str(tmp_path / "go")), limits=LIMITS)))
        await has_begun(tmp_path / "go")
        try:
            await backend.run(Job(source="", limits=LIMITS))
        finally:
            (tmp_path / "go").touch()
            await slow

    with pytest.raises(SandboxError, match=r"full for 0 s \(queue_s\)"):
        with_remote(address, work, queue_s=0.0)


def test_a_place_that_is_not_there_is_a_plain_message(address):
    response = ask(address, "POST", "/v1/places/none/heartbeat")
    assert response.status == 404 and "no place 'none'" in json.loads(response.body)["error"]


def test_a_server_that_does_not_answer_is_a_plain_message():
    with pytest.raises(SandboxError, match="failed"):
        remote.open_backend({"url": "http://127.0.0.1:1"}, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "http://elsewhere.example"}, "in the clear; use https"),
        ({"url": "elsewhere"}, "url"),
        (
            {"url": "http://127.0.0.1:1", "token_env": "NO_SUCH_VARIABLE"},
            "set the environment variable NO_SUCH_VARIABLE",
        ),
        ({"url": "http://127.0.0.1:1", "token_file": "/no/such/file"}, "cannot read the token"),
    ],
)
def test_options_that_cannot_work_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        remote.open_backend(options, 1)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    made = subprocess.run(
        [*OPENSSL.split(), "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)],
        capture_output=True,
        check=False,
    )
    if made.returncode != 0:
        pytest.skip(f"openssl makes no certificate here: {made.stderr.decode()}")
    return cert, key


def test_tls_is_checked_against_the_authority_that_is_named(certificate):
    cert, key = certificate
    with served("--isolation", "none", "--cert", str(cert), "--key", str(key)) as url:
        assert url.startswith("https://")
        outcome = with_remote(
            url, lambda backend: backend.run(Job(source="print(1)", limits=LIMITS)), ca_file=str(cert)
        )
        assert outcome.stdout == b"1\n"
        with pytest.raises(SandboxError, match="CERTIFICATE_VERIFY_FAILED"):
            remote.open_backend({"url": url}, 1)
