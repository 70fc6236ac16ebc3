"""Docker and Podman, through the `docker` package: a container for each job and each place.

A container has no network, a read-only root, three tmpfs that share `disk_mb`, no capability, no new privilege, a
memory limit that counts the tmpfs, a limit of processes, an ordinary user, and the engine's own system-call
filter; the self-test at the opening finds out whether that engine closes what it must. The steward is started by
`exec` for each request, so the image needs a Python of 3.9 or later, and nothing else.

Files do not travel by the engine's archive calls, which cannot see into a tmpfs of a running container
(https://docs.docker.com/reference/cli/docker/container/cp/): the steward opens them inside, following no link,
and bytes come back, capped while they are read. So no archive that a container made is ever unpacked here.

Covered: all of `ISOLATED`, and snapshots. Not covered: CPU time over sessions; `preload`; `rootfs` (the image
is the root).
"""

import asyncio
import contextlib
import importlib.util
import os
import socket
import struct
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar, cast

from pydantic import Field

from burnish.core.config import Strict, validate
from burnish.core.errors import SandboxError
from burnish.core.types import Isolation, Json
from burnish.sandbox.backends import stewarded
from burnish.sandbox.backends.inners import Inners
from burnish.sandbox.backends.stewarded import Request, StewardPlace, refuse_unmet
from burnish.sandbox.place import ISOLATED, Guarantee, PlaceSpec
from burnish.sandbox.types import Ending, Job, Outcome, ResourceLimits

T = TypeVar("T")
NAME: Final = "docker"
GUARANTEES: Final[frozenset[Guarantee]] = ISOLATED | frozenset[Guarantee]({"snapshots"})
ROOTS: Final = {"/work": "/work", "/tmp": "/tmp", "/dev/shm": "/dev/shm"}
SHARES: Final = {"/work": 5, "/tmp": 2, "/dev/shm": 1}
"""Of the disk, in eighths: one tmpfs cannot show up in three folders of a container."""
NUM_PLACE_THREADS: Final = 16
DEFAULT_ENGINE: Final = "unix:///var/run/docker.sock"
CALL_S: Final = 60
KEEP_ALIVE: Final = ("sleep", "2147483647")
LABEL: Final = "burnish.sandbox"
FRAME_HEADER: Final = struct.Struct(">BxxxL")
STDOUT: Final = 1


class Config(Strict):
    """Options of `docker`."""

    image: str = "python:3.11-slim"
    base_url: str = ""
    """Of the engine, for example unix:///run/user/1000/podman/podman.sock; empty: as DOCKER_HOST says."""
    python: str = "python3"
    user: str = Field(default="65534:65534", pattern=r"^[1-9]\d*:[1-9]\d*$")
    """Uid and gid inside, never those of root."""


def open_backend(options: Mapping[str, Json], num_workers: int) -> "DockerBackend":
    """Open the backend; `SandboxError` says what is missing."""
    lacks = missing(options)
    if lacks:
        raise SandboxError(f"sandbox: backend {NAME!r} cannot isolate here; it lacks {'; '.join(lacks)}")
    config = validate(Config, options, f"options of backend {NAME!r}")
    return DockerBackend(_client(config), config, num_workers)


def missing(options: Mapping[str, Json]) -> list[str]:
    """Say what this host lacks, each with the way to get it."""
    config = validate(Config, options, f"options of backend {NAME!r}")
    if importlib.util.find_spec("docker") is None:
        return ["the package docker: `pip install burnish[docker]`"]
    from docker.errors import DockerException, ImageNotFound  # noqa: PLC0415 - an extra
    from requests.exceptions import RequestException  # noqa: PLC0415 - comes with it

    try:
        _knock(config.base_url or os.environ.get("DOCKER_HOST") or DEFAULT_ENGINE)
        client = _client(config)
        with contextlib.closing(client):
            client.images.get(config.image)
    except ImageNotFound:
        return [f"the image {config.image!r}: `docker pull {config.image}`"]
    except (DockerException, RequestException, OSError) as error:
        return [f"a Docker or Podman engine that answers ({error}): start one, or say where in the option base_url"]
    return []


def _knock(engine: str) -> None:
    """Meet an engine's socket; the package leaves its own open where nobody listens."""
    if engine.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as knocking:
            knocking.connect(engine.removeprefix("unix://"))


def _client(config: Config) -> Any:
    import docker  # noqa: PLC0415 - an extra

    if config.base_url:
        return docker.DockerClient(base_url=config.base_url, version="auto", timeout=CALL_S)
    return docker.from_env(version="auto", timeout=CALL_S)


class DockerBackend:
    """Starts a container for each job and place."""

    isolation: Isolation = NAME
    guarantees = GUARANTEES

    def __init__(self, client: Any, config: Config, num_workers: int) -> None:
        self._client = client
        self._config = config
        self._threads = ThreadPoolExecutor(num_workers + NUM_PLACE_THREADS, thread_name_prefix=NAME)
        self._inners = Inners(num_workers)
        self._stopped = False

    async def run(self, job: Job) -> Outcome:
        """Run one job in a container of its own; cancelling the wait kills it first."""
        return await self._inners.run(job, lambda: self._open(job.limits))

    async def start(self, spec: PlaceSpec) -> StewardPlace:
        """Start a place."""
        refuse_unmet(NAME, self.guarantees, spec.needs)
        if spec.rootfs is not None:
            raise SandboxError(f"sandbox: backend {NAME!r} has no rootfs: make an image of it (`docker import`)")
        return await StewardPlace(lambda: self._open(spec.limits), spec).open()

    async def stop(self) -> None:
        """Kill and remove every container that was started."""
        self._stopped = True
        await self._inners.stop()
        self._threads.shutdown()
        self._client.close()

    async def _open(self, limits: ResourceLimits) -> "_Inner":
        if self._stopped:
            raise SandboxError(f"sandbox: this backend {NAME!r} was stopped; open another")
        inner = _Inner(self._client, self._config, self._threads, self._inners)
        return await self._inners.started(inner, inner.start(limits))


class _Inner:
    """One container."""

    roots: Mapping[str, str] = ROOTS

    def __init__(self, client: Any, config: Config, threads: ThreadPoolExecutor, known: Inners) -> None:
        self._client = client
        self._config = config
        self._threads = threads
        self._known = known
        self._container: Any = None
        self._stopped = False

    async def start(self, limits: ResourceLimits) -> None:
        """Create the container and start it."""
        await self._in_thread(lambda: self._start(limits))

    async def call(self, request: Request, wall_s: float, cap_bytes: int) -> Request:
        """Start a steward in the container for this request."""
        request = request | {"num_processes": 0}  # the container's own limit holds; the user may have others
        return await self._in_thread(lambda: self._call(request, time.monotonic() + wall_s, cap_bytes))

    async def stop(self) -> None:
        """Kill and remove the container."""
        self._stopped = True
        await asyncio.to_thread(self._remove)
        self._known.discard(self)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: _told(work))

    def _start(self, limits: ResourceLimits) -> None:
        container = self._client.containers.create(**container_options(self._config, limits))
        self._container = container
        if self._stopped:
            self._remove()
            raise SandboxError("sandbox: stopped while a container was started")
        container.start()

    def _call(self, request: Request, deadline: float, cap_bytes: int) -> Request:
        api = self._client.api
        command = stewarded.once_command(self._config.python)
        exec_id = api.exec_create(self._container.id, command, stdin=True, user=self._config.user)["Id"]
        stream = api.exec_start(exec_id, socket=True)
        raw: socket.socket = cast(Any, stream)._sock if isinstance(stream, socket.SocketIO) else stream
        try:
            text, ending = _converse(raw, stewarded.once_request(request), deadline, stewarded.once_cap(cap_bytes))
        finally:
            stream.close()
            raw.close()
            with contextlib.suppress(AttributeError, ValueError):  # urllib3 flushes what is closed already
                cast(Any, stream)._response.close()  # which holds the connection open otherwise
        if self._stopped:
            raise SandboxError("sandbox: the place was stopped while it ran something")
        if ending:
            self._container.kill()
            return {"ending": ending}
        reply = stewarded.once_reply(text)
        if reply.get("ending") == "killed":
            self._container.reload()
            if self._container.attrs["State"].get("OOMKilled"):
                return reply | {"ending": "over_memory"}
        return reply

    def _remove(self) -> None:
        container, self._container = self._container, None
        if container is not None:
            _told(lambda: container.remove(force=True, v=True))


def container_options(config: Config, limits: ResourceLimits) -> dict[str, Any]:
    """What a container is created with; `memory_mb` is for processes, so the tmpfs come on top."""
    user, _, group = config.user.partition(":")
    memory = f"{limits.memory_mb + limits.disk_mb}m"
    return {
        "image": config.image,
        "entrypoint": [],
        "command": list(KEEP_ALIVE),
        "init": True,
        "user": config.user,
        "network_mode": "none",
        "network_disabled": True,
        "ipc_mode": "private",
        "read_only": True,
        "tmpfs": {
            folder: (
                f"rw,nosuid,nodev,exec,mode=0700,uid={user},gid={group},"
                f"size={(limits.disk_mb << 20) * share // 8},nr_inodes={max(2, limits.num_files * share // 8)}"
            )
            for folder, share in SHARES.items()
        },
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "pids_limit": limits.num_processes + 3,  # init, sleep and the steward
        "mem_limit": memory,
        "memswap_limit": memory,
        "environment": {"HOME": "/work", "TMPDIR": "/tmp", "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"},
        "working_dir": "/work",
        "labels": {LABEL: str(os.getpid())},
    }


def _told(work: Callable[[], T]) -> T:
    """Turn the engine's errors into ours; a container that is gone already is none."""
    from docker.errors import DockerException, NotFound  # noqa: PLC0415 - an extra
    from requests.exceptions import RequestException  # noqa: PLC0415 - comes with it

    try:
        return work()
    except NotFound as error:
        raise SandboxError(f"sandbox: a container is gone: {error}") from error
    except (DockerException, RequestException, OSError) as error:
        raise SandboxError(f"sandbox: the container engine failed: {error}") from error


def _converse(raw: socket.socket, request: bytes, deadline: float, cap_bytes: int) -> tuple[bytes, Ending | None]:
    """Send a request and read what stdout answers, to its end; or why not."""
    text = bytearray()
    try:
        _set_deadline(raw, deadline)
        raw.sendall(request)
        while header := _exactly(raw, FRAME_HEADER.size, deadline):
            kind, size = FRAME_HEADER.unpack(header)
            if size > cap_bytes:
                return b"", "over_output"
            content = _exactly(raw, size, deadline)
            if kind == STDOUT:
                text += content
            if len(text) > cap_bytes:
                return b"", "over_output"
    except TimeoutError:
        return b"", "timed_out"
    except (BrokenPipeError, ConnectionResetError):
        return b"", "killed"
    return bytes(text), None


def _exactly(raw: socket.socket, size: int, deadline: float) -> bytes:
    """Read so many bytes; fewer only at the end."""
    content = bytearray()
    while len(content) < size:
        _set_deadline(raw, deadline)
        chunk = raw.recv(size - len(content))
        if not chunk:
            return b""
        content += chunk
    return bytes(content)


def _set_deadline(raw: socket.socket, deadline: float) -> None:
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    raw.settimeout(left_s)
