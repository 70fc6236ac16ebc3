"""What a client does to a server, and a full server to a client's places."""

import asyncio
import gzip
import io
import json
import tarfile
import threading
from pathlib import Path
from typing import Any

import pytest

from burnish.core.errors import SandboxError
from burnish.sandbox import Job
from burnish.sandbox.backends import wire
from burnish.sandbox.backends.remote import NUM_PLACE_THREADS, RemoteBackend
from burnish.sandbox.place import Command, PlaceSpec
from burnish.sandbox.types import MOST

server = pytest.importorskip("burnish.sandbox.backends.server")
TOKEN = "a-token"


async def status_of(app: Any, chunks: list[bytes], *, ends: bool) -> int:
    """POST a job to an application, in this process; without an end the client goes silent."""
    said: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if chunks:
            return {"type": "http.request", "body": chunks.pop(0), "more_body": bool(chunks) or not ends}
        await asyncio.sleep(3600)
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        said.append(message)

    headers = [(b"authorization", f"Bearer {TOKEN}".encode())]
    scope = {"type": "http", "method": "POST", "path": "/v1/jobs", "headers": headers, "query_string": b""}
    await app(scope, receive, send)
    return said[0]["status"]


def test_a_client_that_goes_silent_gives_its_slot_back():
    app = server.application(None, server.Settings(token=TOKEN, max_running=1, body_s=0.05))
    assert [asyncio.run(status_of(app, [b"{"], ends=False)) for _ in range(2)] == [408, 408]


def test_a_source_that_is_no_text_is_a_bad_request():
    app = server.application(None, server.Settings(token=TOKEN))
    body = json.loads(wire.of_job(Job(source="")).model_dump_json()) | {"source": "/w=="}
    assert asyncio.run(status_of(app, [json.dumps(body).encode()], ends=True)) == 400


@pytest.mark.parametrize("name", MOST)
def test_a_limit_that_nothing_could_hold_is_a_bad_request(name):
    app = server.application(None, server.Settings(token=TOKEN))
    body = json.loads(wire.of_job(Job(source="")).model_dump_json())
    for value in (0, 1 << 63, float("inf"), float("nan")):
        body["limits"][name] = value
        assert asyncio.run(status_of(app, [json.dumps(body).encode()], ends=True)) == 400


def test_packed_layers_are_refused(tmp_path: Path):
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("f"))
    server._unpack(plain.getvalue(), tmp_path)
    with pytest.raises(SandboxError, match="unpacked"):
        server._unpack(gzip.compress(plain.getvalue()), tmp_path)


class FullServer:
    """Answers to everything but commands."""

    def __init__(self) -> None:
        self.has_room, self.beats = threading.Event(), threading.Semaphore(0)

    def ask(self, method: str, path: str, body: object, answer: type[Any], wait_s: float) -> Any:
        if path.endswith("/run"):
            assert self.has_room.wait(60)
            raise SandboxError("full")
        if path.endswith("/heartbeat"):
            self.beats.release()
        return wire.PlaceAnswer(place="p", lease_s=0.04) if answer is wire.PlaceAnswer else wire.Nothing()


def test_places_are_kept_while_commands_wait_for_a_full_server():
    client = FullServer()

    async def wait() -> bool:
        backend = RemoteBackend(client, frozenset(), 1)  # pyright: ignore[reportArgumentType]
        place = await backend.start(PlaceSpec(needs=frozenset()))
        waiting = [asyncio.ensure_future(place.run(Command(argv=("true",)))) for _ in range(NUM_PLACE_THREADS + 1)]
        await asyncio.sleep(0)
        while client.beats.acquire(blocking=False):
            pass
        has_beaten = await asyncio.to_thread(client.beats.acquire, True, 5.0)
        client.has_room.set()
        await asyncio.gather(*waiting, return_exceptions=True)
        await backend.stop()
        return has_beaten

    assert asyncio.run(wait())
