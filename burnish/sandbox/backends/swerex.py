"""SWE-ReX (package `swe-rex`): any of its deployments, with a steward started for each request.

A deployment says itself how it isolates, and none promises what `ISOLATED` asks for: its runtime is a server that
must be reached, so its container has a network. Hence few guarantees, none at all for `local` and `remote`;
whoever has set up more (for example a container network that leads nowhere, by `docker_args`) says so in
`vouched_for`, and the self-test then tries it.

Covered: what the deployment keeps apart; deadline, output cap and limits of each process by the steward.
Not covered: several commands at once in one place: they queue; `preload`; `rootfs`.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
# The package is an extra that development does without.

import asyncio
import importlib.util
import uuid
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Literal, Self, TypeVar

from pydantic import JsonValue, ValidationError, model_validator

from burnish.core.config import Strict, validate
from burnish.core.errors import ConfigError, SandboxError
from burnish.core.types import Json
from burnish.sandbox.backends import stewarded
from burnish.sandbox.backends.inners import Inners
from burnish.sandbox.backends.one_inner_each import OneInnerEach
from burnish.sandbox.backends.stewarded import Request
from burnish.sandbox.place import Guarantee

T = TypeVar("T")
NAME: Final = "swerex"
APART: Final[frozenset[Guarantee]] = frozenset({"files", "output", "snapshots"})
ENVIRONMENT: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
FILE_S: Final = 60.0
Kind = Literal["local", "docker", "modal", "fargate", "remote", "daytona"]


class Config(Strict):
    """Options of `swerex`."""

    deployment: Kind = "docker"
    settings: dict[str, JsonValue] = {}
    """Those of that deployment's own configuration, for example image and docker_args."""
    python: str = "python3"
    vouched_for: list[Guarantee] = []
    """What you have set up so that it holds, beyond what the deployment promises."""

    @model_validator(mode="after")
    def _local_is_this_host(self) -> Self:
        if self.deployment == "local" and self.vouched_for:
            raise ValueError("deployment 'local' isolates nothing, and nobody can vouch for it: leave out vouched_for")
        return self


def open_backend(options: Mapping[str, Json], num_workers: int) -> OneInnerEach:
    """Open the backend; `SandboxError` says what is missing."""
    lacks = missing(options)
    if lacks:
        raise SandboxError(f"sandbox: backend {NAME!r} lacks {'; '.join(lacks)}")
    config = validate(Config, options, f"options of backend {NAME!r}")
    _deployment(config)  # wrong settings are an error now
    apart = frozenset[Guarantee]() if config.deployment in ("local", "remote") else APART
    guarantees = apart | frozenset(config.vouched_for)
    return OneInnerEach(
        NAME, guarantees, num_workers, lambda known: _Inner(config, known), "name an image in its settings"
    )


def missing(options: Mapping[str, Json]) -> list[str]:
    """Say what this host lacks, each with the way to get it."""
    validate(Config, options, f"options of backend {NAME!r}")
    if not options:
        return ["a deployment: name one in the option deployment"]
    return [] if importlib.util.find_spec("swerex") else ["the package swe-rex: `pip install burnish[swerex]`"]


def _deployment(config: Config) -> Any:
    from swerex.deployment import config as known  # noqa: PLC0415 - an extra

    kinds: dict[str, Any] = {
        "local": known.LocalDeploymentConfig,
        "docker": known.DockerDeploymentConfig,
        "modal": known.ModalDeploymentConfig,
        "fargate": known.FargateDeploymentConfig,
        "remote": known.RemoteDeploymentConfig,
        "daytona": known.DaytonaDeploymentConfig,
    }
    try:
        return kinds[config.deployment](**config.settings).get_deployment()
    except ValidationError as error:
        raise ConfigError(f"options of backend {NAME!r}: settings of {config.deployment!r}: {error}") from error
    except ModuleNotFoundError as error:
        raise SandboxError(f"sandbox: SWE-ReX lacks {error.name} for {config.deployment!r}: pip install it") from error


class _Inner:
    """One deployment, driven by a thread and loop of its own: the local runtime blocks the loop that it runs in."""

    def __init__(self, config: Config, known: Inners) -> None:
        self._config = config
        self._known = known
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=NAME)
        self._runner: asyncio.Runner | None = None
        self._deployment: Any = None
        self._folder = f"/tmp/burnish-{uuid.uuid4().hex}"
        self._stopped = False
        self.roots: Mapping[str, str] = {"/work": f"{self._folder}/work"}

    async def start(self) -> None:
        """Start the deployment and make the folder."""
        await self._there(self._start())

    async def call(self, request: Request, wall_s: float, cap_bytes: int) -> Request:
        """Start a steward for this request."""
        return await self._there(self._call(request | {"num_processes": 0}, wall_s))

    async def stop(self) -> None:
        """Stop the deployment and what it holds."""
        if self._stopped:
            return
        self._stopped = True
        self._known.discard(self)
        try:
            if self._deployment is not None:
                await self._there(self._end())
        finally:
            self._thread.submit(lambda: self._runner and self._runner.close())
            await asyncio.to_thread(self._thread.shutdown)

    async def _there(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._told, work)

    def _told(self, work: Coroutine[Any, Any, T]) -> T:
        from swerex.exceptions import SwerexException  # noqa: PLC0415 - an extra

        self._runner = self._runner or asyncio.Runner()
        try:
            return self._runner.run(work)
        except (SwerexException, OSError) as error:
            raise SandboxError(f"sandbox: SWE-ReX failed: {type(error).__name__}: {error}") from error

    async def _start(self) -> None:
        self._deployment = _deployment(self._config)
        await self._deployment.start()
        await self._execute(["mkdir", "-p", self.roots["/work"]], FILE_S)

    async def _call(self, request: Request, wall_s: float) -> Request:
        from swerex.exceptions import CommandTimeoutError  # noqa: PLC0415 - an extra
        from swerex.runtime.abstract import WriteFileRequest  # noqa: PLC0415 - an extra

        path = f"{self._folder}/{uuid.uuid4().hex}"
        content = stewarded.once_request(request).decode("ascii")
        await self._deployment.runtime.write_file(WriteFileRequest(path=path, content=content))
        try:
            response = await self._execute([*stewarded.once_command(self._config.python), path], wall_s)
        except CommandTimeoutError:
            return {"ending": "timed_out"}
        return stewarded.once_reply(response.stdout.encode("ascii", "replace"))

    async def _execute(self, argv: list[str], wall_s: float) -> Any:
        from swerex.runtime.abstract import Command  # noqa: PLC0415 - an extra

        return await self._deployment.runtime.execute(Command(command=argv, timeout=wall_s, env=dict(ENVIRONMENT)))

    async def _end(self) -> None:
        try:
            await self._execute(["rm", "-rf", self._folder], FILE_S)
        finally:
            await self._deployment.stop()
