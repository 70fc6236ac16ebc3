"""Places that last, on this host's kernel: namespaces, an overlay of layers, and a keeper that holds them.

`places = LocalPlaces(); place = await places.start(PlaceSpec(layers=(repository,))); ...; await places.stop()`

A place and its forks are one family with one keeper process, which ends with the last of them. Commands run
side by side. What a command leaves running stays until the place stops or is restored; its outputs are no
longer read once the command itself has ended, so what goes on should write to a file. A command that is
stopped for its time or its output takes along its session and all that descends from it.

Snapshots lie on the place's own disk and count against `disk_mb` and `num_files`. They keep `/work`; a restore
also empties `/tmp` and `/dev/shm`. While commands run, a snapshot stops all of them for as long as it copies.

Covered: root, and ordinary users where the system lets them have user namespaces; Linux 6.6 or later.
Not covered: CPU time of a tree (each process has `cpu_s`); use from more than one event loop.
"""

import asyncio
import itertools
import json
import os
import stat
import time
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Final, Literal

from burnish.core.errors import SandboxError
from burnish.sandbox import family_group, host, place_root, selftest
from burnish.sandbox.cgroups import Group
from burnish.sandbox.gather import Gathering
from burnish.sandbox.inside.room import Limits
from burnish.sandbox.keeper_link import Answer, KeeperLink, start_keeper
from burnish.sandbox.memfds import sealed
from burnish.sandbox.place import Change, Command, Guarantee, PlaceSpec
from burnish.sandbox.shell import PATIENCE_S, LocalShell
from burnish.sandbox.types import Ending, Isolation, Job, Outcome, ResourceLimits

DYING_S: Final = 10.0
DIFF_S: Final = 30.0
MOST_DIFF_BYTES: Final = 1 << 26
MOST_CELLS: Final = 1000
KILLED: Final = -9
XCPU: Final = -24
WRITABLE: Final = {"work": ("work",), "tmp": ("tmp",), "dev/shm": ("shm",)}
GUARANTEES: Final[frozenset[Guarantee]] = frozenset(
    {"files", "network", "kernel", "processes", "memory", "disk", "output", "snapshots", "shell"}
)


@dataclass(slots=True, kw_only=True)
class _Family:
    link: KeeperLink
    spec: PlaceSpec
    group: Group | None = None
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)
    places: "set[LocalPlace]" = field(default_factory=set)

    def allow(self) -> None:
        """Let the group use what its places may."""
        if self.group is not None:
            family_group.allow(self.group, self.spec.limits, len(self.places))

    def ran_out_of_memory(self) -> bool:
        """Whether the kernel has killed for want of memory since this was asked last."""
        return self.group is not None and self.group.has_new_memory_kills()

    def end(self) -> None:
        """Wait until the keeper is gone, after it was hung up, and remove the group; blocks, and twice is safe."""
        self.link.end()
        if self.group is not None:
            family_group.leave(self.group)


class LocalPlace:
    """A running place; see `place.Place` and `place.Workspace`."""

    def __init__(self, family: _Family) -> None:
        self._family = family
        self._name = f"r{next(family.numbers)}"
        self._environment = dict(place_root.environment(family.spec))
        self._shells: set[LocalShell] = set()
        self._has_stopped = False

    async def open(self, snapshot: str | None) -> None:
        """Make the room; called once, by whoever made this object."""
        limits = self._family.spec.limits
        asked = Limits(
            cpu_s=limits.cpu_s,
            memory_mb=limits.memory_mb,
            disk_mb=limits.disk_mb,
            num_files=limits.num_files,
            num_processes=limits.num_processes,
        )
        self._family.places.add(self)
        self._family.allow()
        await self._link.ask("open", name=self._name, limits=asdict(asked), snapshot=snapshot)

    @property
    def _link(self) -> KeeperLink:
        if self._has_stopped:
            raise SandboxError("sandbox: this place was stopped; start another")
        return self._family.link

    async def run(self, command: Command) -> Outcome:
        """Run one command to its end or its limits; cancelling the wait kills it."""
        started = time.monotonic()
        with ExitStack() as stack:
            gathering = Gathering(("stdout", "stderr"), command.output_bytes)
            stack.callback(gathering.close)
            number = self._begin(command, gathering)
            answer = asyncio.ensure_future(self._link.answer(number))
            stopped = await self._wait(answer, number, gathering, command.wall_s)
            written = gathering.finish()
        said = answer.result().said
        ran_out = said["ran_out_of_memory"] or (self._family.ran_out_of_memory() and said["code"] == KILLED)
        return Outcome(
            ending=stopped or _ending(said["code"], ran_out),
            exit_code=None if stopped or said["code"] < 0 or ran_out else said["code"],
            stdout=written["stdout"],
            stderr=written["stderr"],
            answer=b"",
            wall_s=time.monotonic() - started,
        )

    def _begin(self, command: Command, gathering: Gathering) -> int:
        if not command.argv or any("\0" in text for text in (*command.argv, command.cwd)):
            raise SandboxError(f"sandbox: bad command {command.argv!r}: expected words without NUL, at least one")
        stdin = sealed(command.stdin, "stdin")
        try:
            return self._link.begin(
                "run",
                [stdin, *gathering.far_ends],
                name=self._name,
                argv=command.argv,
                cwd=_absolute(command.cwd),
                env=self._environment | dict(command.env),
                cpu_s=self._family.spec.limits.cpu_s,
            )
        finally:
            os.close(stdin)
            gathering.begin()

    async def _wait(
        self, answer: "asyncio.Future[Answer]", number: int, gathering: Gathering, wall_s: float
    ) -> Literal["timed_out", "over_output"] | None:
        try:
            await asyncio.wait({answer, gathering.is_over}, timeout=wall_s, return_when=asyncio.FIRST_COMPLETED)
            stopped = None if answer.done() else "over_output" if gathering.is_over.done() else "timed_out"
        except asyncio.CancelledError:
            await asyncio.shield(asyncio.ensure_future(self._kill(answer, number)))
            answer.exception()
            raise
        if stopped:
            await self._kill(answer, number)
        return stopped or ("over_output" if gathering.is_over.done() else None)

    async def _kill(self, answer: "asyncio.Future[Answer]", number: int) -> None:
        await self._link.ask("kill", task=number)
        done, _ = await asyncio.wait({answer}, timeout=DYING_S)
        if not done:
            answer.cancel()
            raise SandboxError(f"sandbox: a command was not gone within {DYING_S:.0f} s of its end")

    async def write(self, path: str, content: bytes) -> None:
        """Write a file as the place's user, making folders on the way."""
        fd = await self._open_file(path, is_write=True)
        try:
            os.ftruncate(fd, 0)
            view = memoryview(content)
            while view:
                view = view[os.write(fd, view) :]
        except OSError as error:
            raise SandboxError(f"sandbox: cannot write {path!r} of a place: {error.strerror}") from error
        finally:
            os.close(fd)

    async def read(self, path: str, cap_bytes: int) -> bytes:
        """Read a regular file, following no link."""
        fd = await self._open_file(path, is_write=False)
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise SandboxError(f"sandbox: {path!r} of a place is no regular file")
            content = bytearray()
            while chunk := os.read(fd, min(1 << 20, cap_bytes + 1 - len(content))):
                content += chunk
            if len(content) > cap_bytes:
                raise SandboxError(f"sandbox: {path!r} of a place is larger than the {cap_bytes} bytes allowed")
            return bytes(content)
        except OSError as error:
            raise SandboxError(f"sandbox: cannot read {path!r} of a place: {error.strerror}") from error
        finally:
            os.close(fd)

    async def _open_file(self, path: str, is_write: bool) -> int:
        parts = _within(path)
        try:
            answer = await self._link.ask("file", name=self._name, path=parts, is_write=is_write)
        except SandboxError as error:
            raise SandboxError(f"sandbox: cannot open {path!r} of a place: {error}") from error
        return answer.fds[0]

    async def snapshot(self) -> str:
        """Keep the tree of `/work` as it is; the name to go back to."""
        idle = [shell.number for shell in self._shells if not shell.is_running]
        answer = await self._link.ask("snapshot", name=self._name, idle=idle)
        if answer.said["has_moved"]:
            for shell in self._shells:
                shell.enter_again()
        return answer.said["snapshot"]

    async def restore(self, snapshot: str) -> None:
        """Kill what runs, shells too, empty `/tmp` and `/dev/shm`, and set `/work` back."""
        await self._link.ask("restore", name=self._name, snapshot=snapshot)
        await self._close_shells()

    async def fork(self, snapshot: str) -> "LocalPlace":
        """Start a second place from a snapshot; neither sees what the other does from then on."""
        assert self._link is self._family.link  # or it was stopped, which is an error
        return await _open(self._family, snapshot)

    async def diff(self, old: str | None = None, new: str | None = None) -> dict[str, Change]:
        """Say which files were added, changed or deleted from `old` (the start) to `new` (now)."""
        after = new or await self.snapshot()
        found = os.memfd_create("diff")
        try:
            code = await self._compared(found, old, after)
            size = os.fstat(found).st_size
            if code != 0 or size > MOST_DIFF_BYTES:
                why = f"{size} bytes of names" if code == 0 else self._link.last_words()
                raise SandboxError(f"sandbox: comparing snapshots {old!r} and {after!r} failed: {why}")
            text = os.pread(found, size, 0)
        finally:
            os.close(found)
        return dict(sorted(json.loads(text.decode(errors="surrogateescape")).items()))

    async def _compared(self, found: int, old: str | None, new: str) -> int:
        """Have a child of the keeper compare; its exit code. One that takes too long is killed, and not the keeper."""
        number = self._link.begin("diff", [found], old=old, new=new)
        answer = asyncio.ensure_future(self._link.answer(number))
        done, _ = await asyncio.wait({answer}, timeout=DIFF_S)
        if not done:
            await self._link.ask("kill", task=number)
        return (await answer).said["code"]

    async def open_shell(
        self, *, strips_ansi: bool = True, rows: int = 40, columns: int = 120, patience_s: float = PATIENCE_S
    ) -> LocalShell:
        """Start a shell on a terminal of its own; `patience_s` lies between two attempts to end a command of it."""
        if not (0 < rows <= MOST_CELLS and 0 < columns <= MOST_CELLS):
            raise SandboxError(
                f"sandbox: bad terminal of {rows!r} rows, {columns!r} columns; expected 1 to {MOST_CELLS}"
            )
        limits = self._family.spec.limits
        shell = LocalShell(
            link=self._link,
            name=self._name,
            env=self._environment,
            cpu_s=limits.cpu_s,
            cap_bytes=limits.output_bytes,
            size=(rows, columns),
            strips_ansi=strips_ansi,
            on_close=self._shells.discard,
            patience_s=patience_s,
        )
        await shell.start("/work")
        self._shells.add(shell)
        return shell

    async def stop(self) -> None:
        """Kill everything and leave nothing; safe to call twice."""
        if self._has_stopped:
            return
        family, link = self._family, self._link
        self._has_stopped = True
        family.places.discard(self)
        try:
            if family.places:
                with suppress(SandboxError):
                    await link.ask("close", name=self._name)
            await self._close_shells()
        finally:  # also of a stop that is cancelled: there will be no other
            if not family.places:
                link.hang_up()
                await asyncio.to_thread(family.end)
            else:
                family.allow()

    async def _close_shells(self) -> None:
        for shell in list(self._shells):
            await shell.close()


class _JobInPlace:
    """A place as the self-test wants it: a box for one job, whose answer is its stdout."""

    isolation: Isolation = "namespaces"

    def __init__(self, place: LocalPlace) -> None:
        self._place = place

    async def run(self, job: Job) -> Outcome:
        for name, content in job.files.items():
            await self._place.write(name, content)
        command = Command(argv=("python3", "-c", job.source), env={"BURNISH_ANSWER_FD": "1"}, wall_s=job.limits.wall_s)
        outcome = await self._place.run(command)
        return replace(outcome, answer=outcome.stdout)

    async def stop(self) -> None:
        await self._place.stop()


class LocalPlaces:
    """Starts places; `stop` ends all of them."""

    guarantees: frozenset[Guarantee] = GUARANTEES

    def __init__(self) -> None:
        self._families: list[_Family] = []
        self._proving = asyncio.Lock()
        self._is_proven = False

    async def start(self, spec: PlaceSpec) -> LocalPlace:
        """Start a place; `SandboxError` names what this host or the spec's root lacks for it."""
        lacks = [*host.lacks(), *_lacks(spec)]
        if lacks:
            raise SandboxError(f"sandbox: this host cannot give a place what it needs; it lacks {'; '.join(lacks)}")
        async with self._proving:
            if not self._is_proven:
                await self._prove()
                self._is_proven = True
        return await self._start(spec)

    async def _start(self, spec: PlaceSpec) -> LocalPlace:
        link = await start_keeper(lambda control_fd: place_root.plan(spec, control_fd))
        family = _Family(link=link, spec=spec, group=await asyncio.to_thread(family_group.enter, link.pid))
        self._families = [each for each in self._families if each.places]
        self._families.append(family)
        return await _open(family, None)

    async def _prove(self) -> None:
        """Try the escapes from a place before any is given away."""
        place = await self._start(PlaceSpec(limits=ResourceLimits(disk_mb=selftest.DISK_MB)))
        try:
            await selftest.prove(_JobInPlace(place))
        finally:
            await place.stop()

    async def stop(self) -> None:
        """Stop every place; safe to call twice."""
        for family in self._families:
            for place in list(family.places):
                await place.stop()
        self._families.clear()


async def _open(family: _Family, snapshot: str | None) -> LocalPlace:
    place = LocalPlace(family)
    try:
        await place.open(snapshot)
    except BaseException:
        await place.stop()
        raise
    return place


def _lacks(spec: PlaceSpec) -> list[str]:
    found = [f"the guarantee {name!r}" for name in sorted(spec.needs - GUARANTEES)]
    if "shell" in spec.needs and spec.rootfs is not None and not (spec.rootfs / "bin/bash").exists():
        found.append(f"the guarantee 'shell': {str(spec.rootfs)!r} has no /bin/bash")
    return found


def _ending(code: int, ran_out_of_memory: bool) -> Ending:
    if ran_out_of_memory:
        return "over_memory"
    return "exited" if code >= 0 else "timed_out" if code == XCPU else "killed"


def _absolute(path: str) -> str:
    return path if path.startswith("/") else f"/work/{path}"


def _within(path: str) -> list[str]:
    """Split a path of a writable folder into that folder's name and the names below it."""
    whole = _absolute(path)
    for folder, name in WRITABLE.items():
        below = whole.removeprefix(f"/{folder}/")
        if below != whole:
            names = [part for part in below.split("/") if part not in ("", ".")]
            if names and ".." not in names and "\0" not in path:
                return [*name, *names]
    raise SandboxError(f"sandbox: bad path {path!r} in a place; expected a file below /work, /tmp or /dev/shm")
