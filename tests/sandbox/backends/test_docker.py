"""`docker` against an engine of the test's own: it speaks the engine's HTTP on a socket of its own, and runs what is
executed as a child process. It proves the conversation and the options; that a real engine isolates, it cannot."""

import asyncio
import gc
import json
import re
import socketserver
import struct
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from burnish.core.errors import SandboxError
from burnish.sandbox import Job, ResourceLimits
from burnish.sandbox.backends import docker
from burnish.sandbox.place import Command, PlaceSpec

pytest.importorskip("docker")

LIMITS = ResourceLimits(wall_s=60.0)


class Engine(BaseHTTPRequestHandler):
    """What of an engine the backend uses; `/work` is a folder of the test."""

    protocol_version = "HTTP/1.1"
    server: Any

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def address_string(self) -> str:
        return "test"

    def do_GET(self) -> None:
        path = re.sub(r"^/v[\d.]+", "", self.path).partition("?")[0]
        if path == "/version":
            self.reply({"ApiVersion": "1.45", "MinAPIVersion": "1.24"})
        elif path.startswith("/images/"):
            self.reply(
                {"Id": "sha256:1"} if "python" in path else {"message": "No such image"},
                200 if "python" in path else 404,
            )
        else:
            self.reply({"Id": "c1", "State": {"OOMKilled": self.server.was_out_of_memory}})

    def do_POST(self) -> None:
        path = re.sub(r"^/v[\d.]+", "", self.path).partition("?")[0]
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        self.server.calls.append((path, body))
        if path == "/containers/create":
            self.reply({"Id": "c1", "Warnings": []}, 201)
        elif path.endswith("/exec"):
            self.server.command = body["Cmd"]
            self.reply({"Id": "e1"}, 201)
        elif path == "/exec/e1/start":
            self.execute()
        else:
            self.reply(None, 204)

    def do_DELETE(self) -> None:
        self.server.calls.append((self.path.partition("?")[0], {}))
        self.reply(None, 204)

    def reply(self, value: Any, status: int = 200) -> None:
        content = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def execute(self) -> None:
        """Run it as a child; both ways of the connection are now its own."""
        self.send_response(101, "UPGRADED")
        self.send_header("Content-Type", "application/vnd.docker.multiplexed-stream")
        self.send_header("Connection", "Upgrade")
        self.send_header("Upgrade", "tcp")
        self.end_headers()
        size = int(self.rfile.readline())
        request = json.loads(self.rfile.read(size))
        work = str(self.server.work)
        body = json.dumps(request | {"work": work, "roots": {"/work": work}}).encode()
        done = subprocess.run(
            self.server.command, input=b"%d\n%s" % (len(body), body), capture_output=True, check=False
        )
        with suppress(OSError):
            for kind, content in ((2, b"a warning"), (1, done.stdout[:100]), (1, done.stdout[100:])):
                self.wfile.write(struct.pack(">BxxxL", kind, len(content)) + content)
        self.close_connection = True


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Any]:
    class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
        daemon_threads = True

    (tmp_path / "work").mkdir()
    with Server(str(tmp_path / "engine.sock"), Engine) as server:
        server.work, server.calls, server.was_out_of_memory = tmp_path / "work", [], False
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def with_engine(engine, work):
    async def run():
        options = {"base_url": f"unix://{engine.server_address}", "python": sys.executable}
        backend = docker.open_backend(options, 2)
        try:
            return await work(backend)
        finally:
            await backend.stop()

    return asyncio.run(run())


def test_a_job_goes_through_a_container_that_is_removed(engine):
    source = "import os; os.write(int(os.environ['BURNISH_ANSWER_FD']), open('a').read().encode()); print(input())"
    job = Job(source=source, files={"a": b"1"}, stdin=b"2\n", limits=LIMITS)
    outcome = with_engine(engine, lambda backend: backend.run(job))
    assert (outcome.ending, outcome.answer, outcome.stdout) == ("exited", b"1", b"2\n"), outcome
    assert engine.calls[-1][0].endswith("/containers/c1")


def test_a_container_is_created_with_every_wall_up(engine):
    with_engine(engine, lambda backend: backend.run(Job(source="", limits=LIMITS)))
    created = next(body for path, body in engine.calls if path == "/containers/create")
    host = created["HostConfig"]
    assert created["NetworkDisabled"] is True and host["NetworkMode"] == "none" and created["User"] == "65534:65534"
    assert host["ReadonlyRootfs"] is True and host["CapDrop"] == ["ALL"]
    assert host["SecurityOpt"] == ["no-new-privileges"] and host["PidsLimit"] == 35
    assert host["Memory"] == host["MemorySwap"] == (512 + 16) << 20
    sizes = [int(re.search(r"size=(\d+)", options)[1]) for options in host["Tmpfs"].values()]
    assert set(host["Tmpfs"]) == {"/work", "/tmp", "/dev/shm"} and sum(sizes) == 16 << 20


def test_a_place_writes_runs_reads_and_goes_back(engine):
    async def work(backend):
        place = await backend.start(PlaceSpec())
        await place.write("a/b", b"\xff1")
        name = await place.snapshot()
        await place.run(Command(argv=("/bin/sh", "-c", "echo 2 > a/b; ln -s /etc/hostname l; mkfifo f")))
        for path in ("l", "f"):
            with pytest.raises(SandboxError, match="read in a place"):
                await place.read(path, 100)
        await place.restore(name)
        return await place.read("a/b", 10)

    assert with_engine(engine, work) == b"\xff1"


def test_a_program_that_the_kernel_killed_for_memory_says_so(engine):
    engine.was_out_of_memory = True
    job = Job(source="import os; os.kill(os.getpid(), 9)", limits=LIMITS)
    assert with_engine(engine, lambda backend: backend.run(job)).ending == "over_memory"


def test_an_engine_that_does_not_answer_and_an_image_that_is_not_there_are_said_with_the_way_out(engine):
    absent = docker.missing({"base_url": "unix:///no/such/engine.sock"})
    assert "engine that answers" in absent[0] and "base_url" in absent[0]
    unknown = docker.missing({"base_url": f"unix://{engine.server_address}", "image": "nosuch:1"})
    assert unknown == ["the image 'nosuch:1': `docker pull nosuch:1`"]


def test_an_engine_that_is_not_there_leaves_no_socket_open():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        docker.missing({"base_url": "unix:///no/such/engine.sock"})
        gc.collect()
    assert [str(one.message) for one in caught if one.category is ResourceWarning] == []
