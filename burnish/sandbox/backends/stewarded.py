"""Places that a steward serves: what their backends share, so that each says only how one is opened.

A backend gives `open_inner`: start an isolated process tree with an empty `/work`, and a way to `call` the
steward in it. From that come `Place` (snapshots are archives of `/work`, kept here unread; to restore is to
kill the inner, open another and put the archive back) and `run(job)`: a fresh place, one request, stop.
"""

import base64
import io
import json
import tarfile
import tempfile
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, Protocol, get_args

from burnish.core.errors import SandboxError
from burnish.core.types import Json
from burnish.sandbox.place import Command, Guarantee, PlaceSpec
from burnish.sandbox.types import Ending, Job, Outcome, ResourceLimits

GRACE_S: Final = 10.0
FILE_S: Final = 60.0
HEADER_BYTES: Final = 4096
"""What one file costs in an archive beside its content, names as long as they can be."""

Request = dict[str, Json]

_PACKAGE: Final = Path(__file__).parents[2]
_STEWARD: Final = {
    **{f"burnish.sandbox.inside.{name}": f"sandbox/inside/{name}.py" for name in ("program", "spent")},
    **{
        f"burnish.sandbox.backends.steward.{name}": f"sandbox/backends/steward/{name}.py"
        for name in ("files", "trees", "running", "requests", "server")
    },
}
_LOAD: Final = """
import importlib.abc, importlib.util, sys, types
class Sources(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    def find_spec(self, name, path=None, target=None):
        if name in sources or any(known.startswith(name + ".") for known in sources):
            return importlib.util.spec_from_loader(name, self, is_package=name not in sources)
    def is_package(self, name):
        return name not in sources
    def get_source(self, name):
        return sources.get(name, "")
sys.meta_path.insert(0, Sources())
"""


class Inner(Protocol):
    """One isolated process tree with a steward in it."""

    roots: Mapping[str, str]
    """Where `/work` and other writable folders really are."""

    async def call(self, request: Request, wall_s: float, cap_bytes: int) -> Request:
        """Have the steward meet a request: its answer, or `{"ending": ...}` if it died or was late."""
        ...

    async def stop(self) -> None:
        """Kill all of it; safe to call twice."""
        ...


OpenInner = Callable[[], Awaitable[Inner]]


def steward_source(call: str) -> str:
    """Write the program that runs inside, for `python -I -S -c`; `call` is its last line."""
    sources = {name: (_PACKAGE / path).read_text(encoding="utf-8") for name, path in _STEWARD.items()}
    return f"sources = {sources!r}\n{_LOAD}\n{call}\n"


def refuse_unmet(name: str, guarantees: frozenset[Guarantee], needs: Iterable[Guarantee]) -> None:
    """Refuse a spec that needs more than a backend gives, by name."""
    unmet = [need for need in get_args(Guarantee) if need in needs and need not in guarantees]
    if unmet:
        raise SandboxError(
            f"sandbox: backend {name!r} cannot give {', '.join(unmet)}; it gives "
            f"{', '.join(sorted(guarantees)) or 'nothing'}: choose another backend, or need less"
        )


class StewardPlace:
    """A place made of one inner after another; only the newest lives."""

    def __init__(self, open_inner: OpenInner, spec: PlaceSpec) -> None:
        self._open_inner = open_inner
        self._spec = spec
        self._inner: Inner | None = None
        self._snapshots: dict[str, bytes] = {}

    async def open(self) -> "StewardPlace":
        """Start it, with the layers in its `/work`."""
        self._inner = await self._open_inner()
        if self._spec.layers:
            try:
                await self._unpack(pack_layers(self._spec.layers, _archive_cap(self._spec.limits)))
            except BaseException:
                await self.stop()
                raise
        return self

    async def run(self, command: Command) -> Outcome:
        """Run one command to its end or its limits."""
        inner = self._alive()
        request = _run_request(inner, self._spec.limits, command.stdin, command.wall_s, command.output_bytes)
        request |= {"argv": list(command.argv), "cwd": command.cwd, "env": {**self._spec.env, **command.env}}
        return outcome(await inner.call(request, command.wall_s + GRACE_S, reply_cap(command.output_bytes)))

    async def write(self, path: str, content: bytes) -> None:
        """Write a file, making folders on the way."""
        await self._ask({"op": "write", "path": path, "content": _encoded(content)}, 0)

    async def read(self, path: str, cap_bytes: int) -> bytes:
        """Read a regular file, following no link."""
        return _content(await self._ask({"op": "read", "path": path, "cap_bytes": cap_bytes}, cap_bytes))

    async def snapshot(self) -> str:
        """Keep the tree of `/work`, as an archive."""
        cap_bytes = _archive_cap(self._spec.limits)
        name = uuid.uuid4().hex
        self._snapshots[name] = _content(await self._ask({"op": "pack", "cap_bytes": cap_bytes}, cap_bytes))
        return name

    async def restore(self, snapshot: str) -> None:
        """Kill what runs, and set `/work` back."""
        if snapshot not in self._snapshots:
            raise SandboxError(f"sandbox: no snapshot {snapshot!r} of this place; it has {len(self._snapshots)}")
        archive = self._snapshots[snapshot]
        try:
            await self._alive().stop()
            self._inner = await self._open_inner()
            await self._unpack(archive)
        except BaseException:  # half a tree is no snapshot
            await self.stop()
            raise

    async def stop(self) -> None:
        """Kill everything and leave nothing."""
        inner, self._inner = self._inner, None
        self._snapshots.clear()
        if inner is not None:
            await inner.stop()

    async def _unpack(self, archive: bytes) -> None:
        await self._ask({"op": "unpack", "content": _encoded(archive)}, 0)

    async def _ask(self, request: Request, cap_bytes: int) -> Request:
        inner = self._alive()
        found = await inner.call(_placed(inner) | request, FILE_S, reply_cap(cap_bytes))
        if "error" in found:
            raise SandboxError(f"sandbox: {request['op']} in a place: {found['error']}")
        if "ending" in found:
            raise SandboxError(f"sandbox: {request['op']} in a place did not end: {found['ending']}")
        return found

    def _alive(self) -> Inner:
        if self._inner is None:
            raise SandboxError("sandbox: this place was stopped; start another")
        return self._inner


async def run_job(inner: Inner, job: Job) -> Outcome:
    """Run a job in a fresh inner, which is gone when this returns."""
    limits = job.limits
    request = _run_request(inner, limits, job.stdin, limits.wall_s, limits.output_bytes)
    request["source"] = _encoded(job.source.encode("utf-8", "surrogatepass"))
    request["files"] = {name: _encoded(content) for name, content in job.files.items()}
    try:
        found = await inner.call(request, limits.wall_s + GRACE_S, reply_cap(limits.output_bytes))
    finally:
        await inner.stop()
    return outcome(found)


def _run_request(inner: Inner, limits: ResourceLimits, stdin: bytes, wall_s: float, output_bytes: int) -> Request:
    return _placed(inner) | {
        "op": "run",
        "argv": None,
        "source": "",
        "files": {},
        "stdin": _encoded(stdin),
        "cwd": "/work",
        "env": {},
        "wall_s": wall_s,
        "output_bytes": output_bytes,
        "cpu_s": limits.cpu_s,
        "memory_mb": limits.memory_mb,
        "disk_mb": limits.disk_mb,
        "num_processes": limits.num_processes,
    }


def _placed(inner: Inner) -> Request:
    return {"work": inner.roots["/work"], "roots": dict(inner.roots)}


def outcome(found: Request) -> Outcome:
    """Read an answer to `run`; nothing in it is believed but as bytes."""
    if "error" in found:
        raise SandboxError(f"sandbox: a program could not be run in a place: {found['error']}")
    ending, code, wall_s = found.get("ending"), found.get("exit_code"), found.get("wall_s")
    if ending not in get_args(Ending):
        raise SandboxError(f"sandbox: a place answered with the ending {ending!r}; expected one of {get_args(Ending)}")
    kind: Ending = next(known for known in get_args(Ending) if known == ending)
    return Outcome(
        ending=kind,
        exit_code=code if isinstance(code, int) and kind in ("exited", "over_memory") else None,
        stdout=decoded(found.get("stdout")),
        stderr=decoded(found.get("stderr")),
        answer=decoded(found.get("answer")),
        wall_s=float(wall_s) if isinstance(wall_s, int | float) else 0.0,
    )


def reply_cap(content_bytes: int) -> int:
    """How long an answer with so much content may be, as JSON with base64."""
    return content_bytes * 4 // 3 + HEADER_BYTES


def parsed_reply(text: bytes) -> Request:
    """Read what a steward, or who spoke for it after its death, wrote; `{"ending": "killed"}` if neither did."""
    try:
        found = json.loads(text.rpartition(b"\n")[2])
    except (ValueError, RecursionError):
        return {"ending": "killed"}
    return found if isinstance(found, dict) else {"ending": "killed"}


def decoded(text: Json) -> bytes:
    """Read base64; what is none is nothing."""
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except ValueError:
        return b""


def once_command(python: str) -> list[str]:
    """The program that meets one request, for backends that can only start programs."""
    inside = steward_source("from burnish.sandbox.backends.steward import requests; requests.once()")
    return [python, "-I", "-S", "-X", "utf8", "-c", inside]


def once_request(request: Request) -> bytes:
    """A request as `once` reads it."""
    body = json.dumps(request).encode()
    return b"%d\n%s" % (len(body), body)


def once_reply(text: bytes) -> Request:
    """Read what `once` wrote; `{"ending": "killed"}` if it wrote nothing that can be read."""
    return parsed_reply(decoded(text.strip().rpartition(b"\n")[2].decode("ascii", "replace")))


def once_cap(cap_bytes: int) -> int:
    """How long the line of an answer of `cap_bytes` may be."""
    return cap_bytes * 4 // 3 + HEADER_BYTES


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def _content(found: Request) -> bytes:
    return decoded(found.get("content"))


def _archive_cap(limits: ResourceLimits) -> int:
    return (limits.disk_mb << 20) + limits.num_files * HEADER_BYTES


def pack_layers(layers: tuple[Path, ...], cap_bytes: int) -> bytes:
    """Lay folders over each other, lowest first, as one archive."""
    members: dict[str, Path] = {}
    for layer in layers:
        if not layer.is_dir():
            raise SandboxError(f"sandbox: the layer {str(layer)!r} is no folder")
        for path in sorted(layer.rglob("*")):
            members[str(path.relative_to(layer))] = path
    with tempfile.SpooledTemporaryFile(max_size=1 << 24) as spooled:
        with tarfile.open(fileobj=spooled, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name in sorted(members):
                archive.add(members[name], name, recursive=False, filter=_without_owner)
        if spooled.tell() > cap_bytes:
            raise SandboxError(
                f"sandbox: the layers have {spooled.tell()} bytes, the place holds {cap_bytes}; "
                "raise disk_mb or num_files"
            )
        spooled.seek(0)
        return io.BytesIO(spooled.read()).getvalue()


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode |= 0o600 if member.isfile() else 0o700
    return member
