"""The server's own rules, without a network: the application is called as its server calls it."""

import asyncio
import json
from typing import Any

import pytest

pytest.importorskip("starlette")

from burnish.commands.sandbox_server import read_token
from burnish.core.errors import ConfigError, SandboxError
from burnish.sandbox.backends import none, server, wire
from burnish.sandbox.types import ResourceLimits

TOKEN = "0123456789abcdef"


class Client:
    """Speaks ASGI to an application that runs in this loop."""

    def __init__(self, application: Any) -> None:
        self._application = application

    async def ask(self, method: str, path: str, body: bytes = b"{}", hangs_up: bool = False) -> tuple[int, Any]:
        received = [{"type": "http.request", "body": body, "more_body": False}]
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            if received:
                return received.pop(0)
            if not hangs_up:
                await asyncio.sleep(3600)
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        headers = [(b"authorization", f"Bearer {TOKEN}".encode())]
        scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b""}
        await self._application(scope | {"headers": headers, "root_path": ""}, receive, send)
        text = b"".join(message.get("body", b"") for message in sent[1:])
        return sent[0]["status"], json.loads(text) if text else None


def with_server(work, **settings):
    async def run():
        backend = none.open_backend({}, 2)
        application = server.application(backend, server.Settings(token=TOKEN, **settings))
        try:
            async with application.router.lifespan_context(application):
                return await work(Client(application))
        finally:
            await backend.stop()

    return asyncio.run(run())


PLACE = wire.PlaceBody(layers=b"", env={}, limits=wire.of_limits(ResourceLimits()), needs=[]).model_dump_json().encode()


class Clock:
    """Time that stands until a test moves it."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


async def soon(client, path: str) -> int:
    """The status of a heartbeat that follows, after the server has looked at its leases a few times."""
    await asyncio.sleep(0.05)
    return (await client.ask("POST", path))[0]


@pytest.mark.parametrize(("beats", "status"), [((), 404), ((9.9, 9.9, 9.9), 200), ((9.9, 10.1), 404)])
def test_a_place_lives_as_long_as_its_client_is_heard_of(beats, status):
    clock = Clock()

    async def work(client):
        _, started = await client.ask("POST", "/v1/places", PLACE)
        path = f"/v1/places/{started['place']}/heartbeat"
        for seconds in beats:
            clock.now_s += seconds
            last = await soon(client, path)
        if beats:
            return last
        clock.now_s += 10.1
        return await soon(client, path)

    assert with_server(work, lease_s=10.0, now=clock, look_every_s=0.01) == status


def test_a_place_that_cannot_be_stopped_keeps_a_server_that_ends_from_no_other():
    stopped = []

    class Stuck:
        async def stop(self) -> None:
            stopped.append(self)
            raise SandboxError("it stays")

    class Backend:
        async def start(self, spec) -> Stuck:
            return Stuck()

    async def run() -> None:
        application = server.application(Backend(), server.Settings(token=TOKEN))
        async with application.router.lifespan_context(application):
            for _ in range(2):
                assert (await Client(application).ask("POST", "/v1/places", PLACE))[0] == 200

    with pytest.raises(SandboxError, match="it stays"):
        asyncio.run(run())
    assert len(stopped) == 2


def test_a_body_that_is_too_large_is_refused():
    assert with_server(lambda client: client.ask("POST", "/v1/jobs", b" " * 1001), max_body_bytes=1000)[0] == 413


def test_there_are_only_so_many_places():
    async def work(client):
        return [(await client.ask("POST", "/v1/places", PLACE))[0] for _ in range(3)]

    assert with_server(work, max_places=2) == [200, 200, 503]


def test_a_place_that_is_still_being_stopped_is_taken():
    async def work(client):
        _, started = await client.ask("POST", "/v1/places", PLACE)
        stopping = asyncio.create_task(client.ask("DELETE", f"/v1/places/{started['place']}"))
        await asyncio.sleep(0)
        status, _ = await client.ask("POST", "/v1/places", PLACE)
        await stopping
        return status, (await client.ask("POST", "/v1/places", PLACE))[0]

    assert with_server(work, max_places=1) == (503, 200)


def test_a_job_whose_client_hangs_up_is_killed_and_its_slot_is_free():
    async def work(client):
        limits = wire.of_limits(ResourceLimits(wall_s=600.0))
        body = wire.JobBody(source=b"import time; time.sleep(600)", files={}, stdin=b"", preload=[], limits=limits)
        given_up = await client.ask("POST", "/v1/jobs", body.model_dump_json().encode(), hangs_up=True)
        return given_up[0], (await client.ask("POST", "/v1/jobs", b"{}"))[0]

    assert with_server(work, max_running=1) == (400, 400)


def test_a_link_in_the_layers_leads_nowhere():
    import io
    import tarfile

    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        member = tarfile.TarInfo("../outside")
        archive.addfile(member)
    body = json.loads(PLACE) | {"layers": wire._to_base64(out.getvalue())}
    status, answer = with_server(lambda client: client.ask("POST", "/v1/places", json.dumps(body).encode()))
    assert status == 422 and "layers cannot be unpacked" in answer["error"]


def test_a_token_that_could_be_guessed_is_refused(tmp_path):
    path = tmp_path / "token"
    path.write_text("short\n")
    with pytest.raises(ConfigError, match="5 characters, expected 16 or more"):
        read_token(path)
