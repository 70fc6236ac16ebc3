"""The server that `remote` talks to: runs jobs and places of a local backend for clients that have its token.

Decisions: one token for all (a client that has it may do all that a client can do); every request is checked for
it before its body is read; a body has a most; when all slots are taken the answer is 503 with Retry-After, so that
waiting is the client's, and nothing piles up here. A place has a lease: if its client is not heard of for that
long, it is stopped. A job whose client hangs up is killed.

Covered: TLS by certificate and key. Not covered: users and quotas, rate limits, a public network: put a proxy there.
"""

import asyncio
import contextlib
import hmac
import io
import tarfile
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from burnish.core.errors import SandboxError
from burnish.sandbox.backends import wire
from burnish.sandbox.place import Backend, Place, PlaceSpec

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")
RETRY_AFTER_S: Final = 1
LOOK_EVERY_S: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a server allows."""

    token: str
    max_running: int = 4
    max_places: int = 32
    max_body_bytes: int = 256 << 20
    body_s: float = 120.0
    """How long a body may take to arrive: whoever sends one may hold a slot."""
    lease_s: float = 30.0
    look_every_s: float = 0.5
    now: Callable[[], float] = time.monotonic


class _Refused(Exception):
    """Answer with this status and sentence."""

    def __init__(self, status: int, error: str) -> None:
        super().__init__(error)
        self.status = status
        self.error = error


@dataclass(slots=True, kw_only=True)
class _Held:
    """A place, the folder of its layers, and when its client was last heard of."""

    place: Place
    folder: tempfile.TemporaryDirectory[str]
    heard: float
    num_running: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class _State:
    def __init__(self, backend: Backend, settings: Settings) -> None:
        self.backend = backend
        self.settings = settings
        self.num_running = 0
        self.num_starting = 0
        self.places: dict[str, _Held] = {}
        self.stopping: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Take one of the places to run in, or say that there is none now."""
        if self.num_running >= self.settings.max_running:
            raise _Refused(503, f"all {self.settings.max_running} slots are taken; ask again")
        self.num_running += 1
        try:
            yield
        finally:
            self.num_running -= 1

    def held(self, name: str) -> _Held:
        """Find a place by name; its client has been heard of."""
        if name not in self.places:
            raise _Refused(404, f"no place {name!r}: it was stopped, or its lease of {self.settings.lease_s} s ran out")
        held = self.places[name]
        held.heard = self.settings.now()
        return held

    async def stop(self, name: str) -> None:
        """Stop a place, if it is there; also when the wait for it is cancelled."""
        held = self.places.pop(name, None)
        if held is not None:
            task = asyncio.create_task(_end(held))
            self.stopping.add(task)
            task.add_done_callback(self.stopping.discard)
            await asyncio.shield(task)

    async def expire(self) -> None:
        """Stop the places whose clients are gone, until cancelled."""
        while True:
            await asyncio.sleep(self.settings.look_every_s)
            oldest = self.settings.now() - self.settings.lease_s
            for name, held in list(self.places.items()):
                if held.heard < oldest and held.num_running == 0:
                    with contextlib.suppress(SandboxError, OSError):  # the next one's lease ends all the same
                        await self.stop(name)


async def _end(held: _Held) -> None:
    try:
        await held.place.stop()
    finally:
        await asyncio.to_thread(held.folder.cleanup)


def application(backend: Backend, settings: Settings) -> Starlette:
    """Build the application; it stops its places when it ends, and leaves the backend to its owner."""
    state = _State(backend, settings)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        expiry = asyncio.create_task(state.expire())
        try:
            yield
        finally:
            expiry.cancel()
            ends = await asyncio.gather(*map(state.stop, list(state.places)), return_exceptions=True)
            if state.stopping:
                await asyncio.wait(state.stopping)
            for fault in filter(None, ends):  # told once all the others are stopped
                raise fault

    def route(path: str, method: str, meet: Callable[[_State, Request], Awaitable[BaseModel]]) -> Route:
        async def endpoint(request: Request) -> Response:
            return await _answered(state, request, meet)

        return Route(path, endpoint, methods=[method])

    return Starlette(
        routes=[
            route("/v1/health", "GET", _health),
            route("/v1/jobs", "POST", _run_job),
            route("/v1/places", "POST", _start),
            route("/v1/places/{place}/run", "POST", _run_command),
            route("/v1/places/{place}/write", "POST", _write),
            route("/v1/places/{place}/read", "POST", _read),
            route("/v1/places/{place}/snapshot", "POST", _snapshot),
            route("/v1/places/{place}/restore", "POST", _restore),
            route("/v1/places/{place}/heartbeat", "POST", _heartbeat),
            route("/v1/places/{place}", "DELETE", _stop),
        ],
        lifespan=lifespan,
    )


async def _answered(
    state: _State, request: Request, meet: Callable[[_State, Request], Awaitable[BaseModel]]
) -> Response:
    try:
        _check_token(state.settings.token, request)
        return _response(200, await meet(state, request))
    except _Refused as refused:
        return _response(refused.status, wire.Fault(error=refused.error))
    except SandboxError as error:
        return _response(422, wire.Fault(error=str(error)))
    except UnicodeDecodeError as error:
        return _response(400, wire.Fault(error=f"the source is no UTF-8: {error.reason}"))
    except ClientDisconnect:
        return Response(status_code=400)


def _response(status: int, body: BaseModel) -> Response:
    headers = {"Retry-After": str(RETRY_AFTER_S)} if status == 503 else {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(body.model_dump_json(), status, headers, "application/json")


def _check_token(token: str, request: Request) -> None:
    given = request.headers.get("authorization", "").encode("utf-8", "replace")
    if not hmac.compare_digest(given, f"Bearer {token}".encode()):
        raise _Refused(401, "the token is missing or wrong")


async def _body(state: _State, request: Request, model: type[M]) -> M:
    most = state.settings.max_body_bytes
    content = bytearray()
    try:
        async with asyncio.timeout(state.settings.body_s):
            async for chunk in request.stream():
                content += chunk
                if len(content) > most:
                    raise _Refused(413, f"the body is larger than {most} bytes")
    except TimeoutError:
        raise _Refused(408, f"the body did not arrive within {state.settings.body_s} s") from None
    try:
        return model.model_validate_json(bytes(content))
    except ValidationError as error:
        raise _Refused(400, f"the body is no {model.__name__}: {error.errors(include_input=False)[:3]}") from error


async def _while_connected(request: Request, work: Awaitable[T]) -> T:
    """Wait for work as long as its client does."""
    task = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait([task], timeout=LOOK_EVERY_S))[0]:
            if await request.is_disconnected():
                raise ClientDisconnect
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait([task])


async def _health(state: _State, _: Request) -> BaseModel:
    backend = state.backend
    return wire.Health(version=wire.VERSION, backend=backend.isolation, guarantees=sorted(backend.guarantees))


async def _run_job(state: _State, request: Request) -> BaseModel:
    async with state.slot():
        job = (await _body(state, request, wire.JobBody)).job()
        return wire.of_outcome(await _while_connected(request, state.backend.run(job)))


async def _start(state: _State, request: Request) -> BaseModel:
    if len(state.places) + state.num_starting + len(state.stopping) >= state.settings.max_places:
        raise _Refused(503, f"all {state.settings.max_places} places are taken; ask again")
    state.num_starting += 1
    try:
        return await _start_place(state, await _body(state, request, wire.PlaceBody))
    finally:
        state.num_starting -= 1


async def _start_place(state: _State, body: wire.PlaceBody) -> BaseModel:
    folder = tempfile.TemporaryDirectory(prefix="burnish-layers-")
    try:
        if body.layers:
            await asyncio.to_thread(_unpack, body.layers, Path(folder.name))
        spec = PlaceSpec(
            layers=(Path(folder.name),) if body.layers else (),
            env=body.env,
            limits=body.limits.limits(),
            needs=frozenset(body.needs),
        )
        place = await state.backend.start(spec)
    except BaseException:
        folder.cleanup()
        raise
    name = uuid.uuid4().hex
    state.places[name] = _Held(place=place, folder=folder, heard=state.settings.now())
    return wire.PlaceAnswer(place=name, lease_s=state.settings.lease_s)


def _unpack(archive: bytes, folder: Path) -> None:
    """Unpack a client's layers: nothing in them leaves the folder."""
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as opened:  # packed, it could be of any size
            opened.extractall(folder, filter="data")
    except (tarfile.TarError, OSError) as error:
        raise SandboxError(f"sandbox: the layers cannot be unpacked: {error}") from error


async def _run_command(state: _State, request: Request) -> BaseModel:
    held = state.held(request.path_params["place"])
    async with state.slot():
        body = await _body(state, request, wire.CommandBody)
        held.num_running += 1
        try:
            return wire.of_outcome(await _while_connected(request, held.place.run(body.command())))
        finally:
            held.num_running -= 1
            held.heard = state.settings.now()


async def _write(state: _State, request: Request) -> BaseModel:
    held = state.held(request.path_params["place"])
    body = await _body(state, request, wire.WriteBody)
    await held.place.write(body.path, body.content)
    return wire.Nothing()


async def _read(state: _State, request: Request) -> BaseModel:
    held = state.held(request.path_params["place"])
    body = await _body(state, request, wire.ReadBody)
    return wire.ContentBody(
        content=await held.place.read(body.path, min(body.cap_bytes, state.settings.max_body_bytes))
    )


async def _snapshot(state: _State, request: Request) -> BaseModel:
    held = state.held(request.path_params["place"])
    return wire.SnapshotBody(snapshot=await held.place.snapshot())


async def _restore(state: _State, request: Request) -> BaseModel:
    held = state.held(request.path_params["place"])
    body = await _body(state, request, wire.SnapshotBody)
    await held.place.restore(body.snapshot)
    return wire.Nothing()


async def _heartbeat(state: _State, request: Request) -> BaseModel:
    state.held(request.path_params["place"])
    return wire.Nothing()


async def _stop(state: _State, request: Request) -> BaseModel:
    await state.stop(request.path_params["place"])
    return wire.Nothing()
