"""Another host's sandbox, over HTTP: `burnish sandbox serve` there, this here.

Places live as long as this client is heard of there. A server that is full says so, and the request is made again
until `queue_s` is over. The client is the standard library's: one connection a request, in a thread.

Covered: what the server's own backend guarantees, asked for at the opening; TLS, with a certificate authority of
your own if you name it. Not covered: `rootfs`. Plain http:// is refused but to this very host: the token would be
read on the way.
"""

import asyncio
import contextlib
import http.client
import os
import ssl
import time
import urllib.parse
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from pydantic import BaseModel, Field, ValidationError

from burnish.core.config import Strict, validate
from burnish.core.errors import ConfigError, SandboxError
from burnish.core.types import Isolation, Json
from burnish.sandbox.backends import wire
from burnish.sandbox.backends.stewarded import GRACE_S, pack_layers, refuse_unmet
from burnish.sandbox.place import Command, Guarantee, PlaceSpec
from burnish.sandbox.types import Job, Outcome, check_file_names

M = TypeVar("M", bound=BaseModel)
NAME: Final = "remote"
ANSWER_S: Final = 60.0
MOST_BYTES: Final = 1 << 30
LOCAL: Final = ("127.0.0.1", "::1", "localhost")
HEARTBEATS_A_LEASE: Final = 4
NUM_PLACE_THREADS: Final = 16
NUM_BEAT_THREADS: Final = 2


class Config(Strict):
    """Options of `remote`."""

    url: str = Field(pattern=r"^https?://[^/]+$")
    """For example https://boxes.example.org:8433."""
    token_env: str = "BURNISH_SANDBOX_TOKEN"
    """The environment variable that holds the token: a recipe is kept with its run, a secret must not be."""
    token_file: str = ""
    ca_file: str = ""
    """Certificates to trust instead of the system's."""
    queue_s: float = Field(default=120.0, ge=0)


def open_backend(options: Mapping[str, Json], num_workers: int) -> "RemoteBackend":
    """Open the backend: ask the server what it guarantees."""
    config = validate(Config, options, f"options of backend {NAME!r}")
    client = _Client(config)
    health = client.ask("GET", "/v1/health", None, wire.Health, ANSWER_S)
    if health.version != wire.VERSION:
        raise SandboxError(f"sandbox: the server speaks version {health.version}, expected {wire.VERSION}; renew one")
    return RemoteBackend(client, frozenset(health.guarantees), num_workers)


def missing(options: Mapping[str, Json]) -> list[str]:
    """Say what is lacking: an address, a token, a server that answers."""
    if not options:
        return ["a server: run `burnish sandbox serve` on another host and name it in the option url"]
    config = validate(Config, options, f"options of backend {NAME!r}")
    try:
        _Client(config).ask("GET", "/v1/health", None, wire.Health, ANSWER_S)
    except (ConfigError, SandboxError) as error:
        return [str(error)]
    return []


def _token(config: Config) -> str:
    if config.token_file:
        try:
            return Path(config.token_file).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise ConfigError(f"cannot read the token of backend {NAME!r}: {error}") from error
    token = os.environ.get(config.token_env, "")
    if not token:
        raise ConfigError(
            f"no token for backend {NAME!r}: set the environment variable {config.token_env}, or the option token_file"
        )
    return token


class _Busy(Exception):
    """The server is full; the number of seconds that it asks for."""

    def __init__(self, retry_s: float) -> None:
        super().__init__()
        self.retry_s = retry_s


class _Client:
    """Asks one question at a time, blocking."""

    def __init__(self, config: Config) -> None:
        parts = urllib.parse.urlsplit(config.url)
        self._host, self._port, self._is_tls = parts.hostname or "", parts.port, parts.scheme == "https"
        if not self._is_tls and self._host not in LOCAL:
            raise ConfigError(f"backend {NAME!r}: {config.url!r} would send the token in the clear; use https://")
        self._headers = {"Authorization": f"Bearer {_token(config)}", "Content-Type": "application/json"}
        self._context = ssl.create_default_context(cafile=config.ca_file or None) if self._is_tls else None
        self.queue_s = config.queue_s

    def ask(self, method: str, path: str, body: BaseModel | None, answer: type[M], wait_s: float) -> M:
        """Ask until the server has room, or `queue_s` is over."""
        until = time.monotonic() + self.queue_s
        while True:
            try:
                return self._ask(method, path, body, answer, wait_s)
            except _Busy as busy:
                if time.monotonic() + busy.retry_s > until:
                    raise SandboxError(f"sandbox: the server was full for {self.queue_s:.0f} s (queue_s)") from busy
                time.sleep(busy.retry_s)

    def _ask(self, method: str, path: str, body: BaseModel | None, answer: type[M], wait_s: float) -> M:
        with contextlib.closing(self._connection(wait_s)) as connection:
            try:
                connection.request(method, path, body.model_dump_json().encode() if body else None, self._headers)
                with connection.getresponse() as response:
                    content = response.read(MOST_BYTES)
            except (OSError, http.client.HTTPException) as error:
                raise SandboxError(f"sandbox: the server at {self._host}:{self._port} failed: {error!r}") from error
        if response.status == 503:
            retry = response.headers.get("Retry-After", "1")
            raise _Busy(min(float(retry), 10.0) if retry.isdigit() else 1.0)
        try:
            if response.status == 200:
                return answer.model_validate_json(content)
            error = wire.Fault.model_validate_json(content).error
        except ValidationError as fault:
            raise SandboxError(
                f"sandbox: {self._host}:{self._port} answered {response.status} and nothing that is known; "
                "is it `burnish sandbox serve`?"
            ) from fault
        raise SandboxError(f"sandbox: the server at {self._host}:{self._port} refused ({response.status}): {error}")

    def _connection(self, wait_s: float) -> http.client.HTTPConnection:
        if self._context is not None:
            return http.client.HTTPSConnection(self._host, self._port, timeout=wait_s, context=self._context)
        return http.client.HTTPConnection(self._host, self._port, timeout=wait_s)


Ask = Callable[[str, str, BaseModel | None, type[M], float], M]


class RemoteBackend:
    """Sends jobs and places to a server."""

    isolation: Isolation = NAME

    def __init__(self, client: _Client, guarantees: frozenset[Guarantee], num_workers: int) -> None:
        self.guarantees: frozenset[Guarantee] = guarantees - {"shell"}
        self._client = client
        self._threads = ThreadPoolExecutor(num_workers + NUM_PLACE_THREADS, thread_name_prefix=NAME)
        self._beats = ThreadPoolExecutor(NUM_BEAT_THREADS, thread_name_prefix=f"{NAME}-beat")
        self._slots = asyncio.Semaphore(num_workers)
        self._places: set[_Place] = set()
        self._stopped = False

    async def run(self, job: Job) -> Outcome:
        """Run one job over there."""
        check_file_names(job)
        async with self._slots:
            wait_s = job.limits.wall_s + GRACE_S + ANSWER_S
            body = await self.ask("POST", "/v1/jobs", wire.of_job(job), wire.OutcomeBody, wait_s)
        return body.outcome()

    async def start(self, spec: PlaceSpec) -> "_Place":
        """Start a place over there."""
        refuse_unmet(NAME, self.guarantees, spec.needs)
        if spec.rootfs is not None:
            raise SandboxError(f"sandbox: backend {NAME!r} has no rootfs; use one that has")
        body = wire.PlaceBody(
            layers=await asyncio.to_thread(pack_layers, spec.layers, MOST_BYTES) if spec.layers else b"",
            env=dict(spec.env),
            limits=wire.of_limits(spec.limits),
            needs=sorted(spec.needs),
        )
        answer = await self.ask("POST", "/v1/places", body, wire.PlaceAnswer, ANSWER_S)
        place = _Place(self, answer.place, answer.lease_s, self._places)
        self._places.add(place)
        return place

    async def stop(self) -> None:
        """Stop the places that are still there."""
        for place in list(self._places):
            with contextlib.suppress(SandboxError):  # its lease ends it, if we no longer can
                await place.stop()
        self._stopped = True
        self._threads.shutdown(wait=False)
        self._beats.shutdown(wait=False)

    async def ask(self, method: str, path: str, body: BaseModel | None, answer: type[M], wait_s: float) -> M:
        """Ask from a thread."""
        return await self._ask(self._threads, method, path, body, answer, wait_s)

    async def beat(self, path: str) -> None:
        """Say that a place is still wanted, by threads of its own: all others may wait for a full server."""
        await self._ask(self._beats, "POST", f"{path}/heartbeat", None, wire.Nothing, ANSWER_S)

    async def _ask(
        self,
        threads: ThreadPoolExecutor,
        method: str,
        path: str,
        body: BaseModel | None,
        answer: type[M],
        wait_s: float,
    ) -> M:
        if self._stopped:
            raise SandboxError(f"sandbox: this backend {NAME!r} was stopped; open another")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(threads, self._client.ask, method, path, body, answer, wait_s)


class _Place:
    """A place over there, kept alive from here."""

    def __init__(self, backend: RemoteBackend, name: str, lease_s: float, known: "set[_Place]") -> None:
        self._backend = backend
        self._path = f"/v1/places/{name}"
        self._known = known
        self._stopped = False
        self._beating = asyncio.create_task(self._beat(lease_s / HEARTBEATS_A_LEASE))

    async def run(self, command: Command) -> Outcome:
        """Run one command to its end or its limits."""
        wait_s = command.wall_s + GRACE_S + ANSWER_S
        return (await self._ask("run", wire.of_command(command), wire.OutcomeBody, wait_s)).outcome()

    async def write(self, path: str, content: bytes) -> None:
        """Write a file, making folders on the way."""
        await self._ask("write", wire.WriteBody(path=path, content=content), wire.Nothing)

    async def read(self, path: str, cap_bytes: int) -> bytes:
        """Read a regular file, following no link."""
        return (await self._ask("read", wire.ReadBody(path=path, cap_bytes=cap_bytes), wire.ContentBody)).content

    async def snapshot(self) -> str:
        """Keep the tree of `/work`."""
        return (await self._ask("snapshot", None, wire.SnapshotBody)).snapshot

    async def restore(self, snapshot: str) -> None:
        """Kill what runs, and set `/work` back."""
        await self._ask("restore", wire.SnapshotBody(snapshot=snapshot), wire.Nothing)

    async def stop(self) -> None:
        """Stop it over there."""
        if self._stopped:
            return
        self._stopped = True
        self._known.discard(self)
        self._beating.cancel()
        await self._backend.ask("DELETE", self._path, None, wire.Nothing, ANSWER_S)

    async def _ask(self, what: str, body: BaseModel | None, answer: type[M], wait_s: float = ANSWER_S * 2) -> M:
        if self._stopped:
            raise SandboxError("sandbox: this place was stopped; start another")
        return await self._backend.ask("POST", f"{self._path}/{what}", body, answer, wait_s)

    async def _beat(self, every_s: float) -> None:
        while True:
            await asyncio.sleep(every_s)
            with contextlib.suppress(SandboxError):  # whoever uses the place next will see it
                await self._backend.beat(self._path)
