"""E2B, and services that speak its protocol (package `e2b`): a sandbox of the service for each job and place.

Each is a virtual machine of the service's template, with no way to the Internet; a steward is started in it for
each request. The service's default user may become root in there and the machine's size is its template's, so
neither `kernel` nor `memory` nor `disk` of a spec is promised. `vouched_for` names what your own template holds to.

Covered: files, network, the output cap, snapshots as archives. Not covered: `preload`, `rootfs`; the number of
processes. Written against the package's interface (2.x) and never run here against the service itself.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
# The package is an extra that development does without.

import importlib.util
import os
import shlex
import uuid
from collections.abc import Awaitable, Mapping
from typing import Any, Final, TypeVar

from pydantic import Field

from burnish.core.config import Strict, validate
from burnish.core.errors import SandboxError
from burnish.core.types import Json
from burnish.sandbox.backends import stewarded
from burnish.sandbox.backends.inners import Inners
from burnish.sandbox.backends.one_inner_each import OneInnerEach
from burnish.sandbox.backends.stewarded import Request
from burnish.sandbox.place import Guarantee

T = TypeVar("T")
NAME: Final = "e2b"
APART: Final[frozenset[Guarantee]] = frozenset({"files", "network", "output", "snapshots"})
FOLDER: Final = "/tmp/burnish"
FILE_S: Final = 60.0


class Config(Strict):
    """Options of `e2b`."""

    template: str = ""
    """Empty: the service's own base template."""
    domain: str = ""
    """Of a service that is not e2b.dev; empty: as E2B_DOMAIN says."""
    python: str = "python3"
    api_key_env: str = "E2B_API_KEY"
    """The environment variable that holds the key: a recipe is kept with its run, a secret must not be."""
    lifetime_s: int = Field(default=3600, ge=1)
    """After which the service ends a sandbox, whatever runs."""
    vouched_for: list[Guarantee] = []


def open_backend(options: Mapping[str, Json], num_workers: int) -> OneInnerEach:
    """Open the backend; `SandboxError` says what is missing."""
    lacks = missing(options)
    if lacks:
        raise SandboxError(f"sandbox: backend {NAME!r} lacks {'; '.join(lacks)}")
    config = validate(Config, options, f"options of backend {NAME!r}")
    guarantees = APART | frozenset(config.vouched_for)
    return OneInnerEach(NAME, guarantees, num_workers, lambda known: _Inner(config, known), "make a template of it")


def missing(options: Mapping[str, Json]) -> list[str]:
    """Say what this host lacks, each with the way to get it; whether the service answers shows at the first start."""
    config = validate(Config, options, f"options of backend {NAME!r}")
    lacks: list[str] = []
    if importlib.util.find_spec("e2b") is None:
        lacks.append("the package e2b: `pip install burnish[e2b]`")
    if not os.environ.get(config.api_key_env):
        lacks.append(f"a key of the service: set the environment variable {config.api_key_env}")
    return lacks


class _Inner:
    """One sandbox of the service."""

    roots: Mapping[str, str] = {"/work": f"{FOLDER}/work"}

    def __init__(self, config: Config, known: Inners) -> None:
        self._config = config
        self._known = known
        self._sandbox: Any = None

    async def start(self) -> None:
        """Have the service make one, without a way to the Internet."""
        from e2b import AsyncSandbox  # noqa: PLC0415 - an extra

        domain = {"domain": self._config.domain} if self._config.domain else {}
        self._sandbox = await _told(
            AsyncSandbox.create(
                template=self._config.template or None,
                timeout=self._config.lifetime_s,
                allow_internet_access=False,
                api_key=os.environ.get(self._config.api_key_env),
                **domain,
            )
        )
        await _told(self._sandbox.commands.run(f"mkdir -p {self.roots['/work']}", timeout=FILE_S))

    async def call(self, request: Request, wall_s: float, cap_bytes: int) -> Request:
        """Start a steward in it for this request."""
        from e2b import CommandExitException, TimeoutException  # noqa: PLC0415 - an extra

        path = f"{FOLDER}/{uuid.uuid4().hex}"
        await _told(self._sandbox.files.write(path, stewarded.once_request(request | {"num_processes": 0})))
        command = shlex.join([*stewarded.once_command(self._config.python), path])
        try:
            result = await self._sandbox.commands.run(command, timeout=wall_s)
        except TimeoutException:
            return {"ending": "timed_out"}
        except CommandExitException:
            return {"ending": "killed"}
        return stewarded.once_reply(result.stdout.encode("ascii", "replace"))

    async def stop(self) -> None:
        """Have the service kill it."""
        sandbox, self._sandbox = self._sandbox, None
        self._known.discard(self)
        if sandbox is not None:
            await _told(sandbox.kill())


async def _told(work: Awaitable[T]) -> T:
    """Turn the service's errors into ours."""
    from e2b.exceptions import AuthenticationException, SandboxException, ServiceBusyException  # noqa: PLC0415
    from httpx import HTTPError  # noqa: PLC0415 - comes with it

    try:
        return await work
    except (SandboxException, AuthenticationException, ServiceBusyException, HTTPError) as error:
        raise SandboxError(f"sandbox: the E2B service failed: {type(error).__name__}: {error}") from error
