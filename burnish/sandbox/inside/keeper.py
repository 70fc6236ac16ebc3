"""The keeper of places: pid 1 of a PID namespace around all of its rooms, the only one that mounts.

It takes orders as JSON over one socket, each answered by id, and executes nothing of its own: it only forks.
It holds the rights to mount and to change users within its user namespace alone; on the host it is a user
without any. Nothing in a room shares a PID namespace, a mount or a socket with it, and it believes nothing
that comes from one: paths are walked without following links, and every name that it mounts is its own.

A fork is a second room on the first one's frozen layers, with a disk and limits of its own. Layers that no
room and no snapshot of a living room needs are removed when a room closes.

Covered: memory of each room, looked at every 25 ms; the largest processes die until the rest fit.
Not covered: CPU time of a whole tree (each process has RLIMIT_CPU); cgroups.
"""

import contextlib
import json
import os
import select
import signal
import socket
import stat
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from burnish.sandbox.inside import census, files, freezing, kernel, layers, mounts, room, seccomp
from burnish.sandbox.inside.children import Children

READY: Final = b"ready"
MAX_ORDER_BYTES: Final = 1 << 16
MAX_FDS: Final = 8
LOOK_EVERY_MS: Final = 25
LONGEST_ERROR: Final = 1000  # an error names paths, which may be of any length; a message may not
IN_ORDER: Final = "@"  # the order itself is in the first descriptor


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A chain to go back to, the mode of its top folder, and the room that it dies with."""

    chain: list[str]
    mode: int
    owner: str


class Keeper:
    """The state of one keeper."""

    def __init__(self, control: socket.socket, chain: list[str], in_user_mode: bool) -> None:
        self._control = control
        self._start = Snapshot(chain=chain, mode=0o755, owner="")
        self._in_user_mode = in_user_mode
        self._filter = seccomp.build()
        self._rooms: dict[str, room.Room] = {}
        self._stores: set[str] = set()
        self._snapshots: dict[str, Snapshot] = {}
        self._num_snapshots = 0
        self._mark = os.urandom(6).hex()  # names of one family's snapshots mean nothing in another
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._children = Children(self._poll, self._say)

    def serve(self) -> NoReturn:
        """Take orders until the outside hangs up."""
        while True:
            is_watching = any(each.is_watched for each in self._rooms.values())
            ready = self._poll.poll(LOOK_EVERY_MS if is_watching else None)
            for fd, _ in ready:
                if fd == self._control.fileno():
                    self._take_order()
            self._children.reap()
            for each in self._rooms.values():
                if each.is_watched:
                    self._look(each)

    def _take_order(self) -> None:
        message, fds, _, _ = socket.recv_fds(self._control, MAX_ORDER_BYTES, MAX_FDS)
        if not message:
            os._exit(0)
        if message == IN_ORDER.encode():
            with open(fds.pop(0), "rb") as file:
                message = file.read()
        order = json.loads(message)
        number = order.pop("id")
        handle: Callable[..., dict[str, Any] | None] = getattr(self, f"do_{order.pop('do')}")
        try:
            answer = handle(number=number, fds=fds, **order)
        except (OSError, ValueError, KeyError) as error:
            answer = dict[str, Any](error=f"{type(error).__name__}: {error}"[:LONGEST_ERROR])
        finally:
            for fd in fds:
                os.close(fd)
        if answer is not None:
            opened: list[int] = answer.pop("fds", [])
            self._say(number, answer, opened)
            for fd in opened:
                os.close(fd)

    def _say(self, number: int, answer: dict[str, Any], fds: list[int] | None = None) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            socket.send_fds(self._control, [json.dumps({"id": number, **answer}).encode()], fds or [])

    # Rooms

    def do_open(self, *, name: str, limits: dict[str, Any], snapshot: str | None, **_: object) -> dict[str, Any]:
        """Open a room on the start, or on a snapshot."""
        base = self._snapshot(snapshot)
        made = room.Room(
            name=name, limits=room.Limits(**limits), in_user_mode=self._in_user_mode, chain=list(base.chain)
        )
        room.make_store(made)
        self._stores.add(name)
        self._rooms[name] = made
        room.lay(made, list(base.chain), base.mode)
        room.open_room(made, self._filter)
        return {}

    def do_close(self, *, name: str, **_: object) -> dict[str, Any]:
        """Kill all in a room, and forget it with its snapshots."""
        closed = self._rooms.pop(name)
        self._empty(closed)
        self._snapshots = {key: each for key, each in self._snapshots.items() if each.owner != name}
        self._drop_unused()
        return {}

    def do_restore(self, *, name: str, snapshot: str, **_: object) -> dict[str, Any]:
        """Kill all in a room and start it anew on a snapshot."""
        base, restored = self._snapshot(snapshot), self._rooms[name]
        self._empty(restored)
        room.lay(restored, list(base.chain), base.mode)
        room.open_room(restored, self._filter)
        self._drop_unused()
        return {}

    def _snapshot(self, name: str | None) -> Snapshot:
        if name is not None and name not in self._snapshots:
            raise ValueError(f"no snapshot {name!r} here: it belongs to another place, or to one that was stopped")
        return self._start if name is None else self._snapshots[name]

    def _empty(self, emptied: room.Room) -> None:
        """Kill all in a room and remove what it wrote since its last snapshot; again is no error."""
        if emptied.is_open:
            emptied.is_open = emptied.is_watched = False
            with contextlib.suppress(ProcessLookupError):  # the kernel's memory killer was there first
                signal.pidfd_send_signal(emptied.holder_fd, signal.SIGKILL)
                self._children.reap(until=emptied.holder)
            for fd in (emptied.holder_fd, *emptied.fds.values()):
                os.close(fd)
            emptied.fds = {}
        with contextlib.suppress(OSError):
            kernel.unmount(emptied.live)
        for kind in ("tmp", "shm", "w", "live", "u"):
            layers.remove(f"{emptied.store}/{kind}{emptied.top}", emptied.store)

    def _layers_in_use(self) -> set[str]:
        chains = [each.chain for each in (*self._rooms.values(), *self._snapshots.values())]
        return {layer for chain in chains for layer in chain}

    def _drop_unused(self) -> None:
        used = self._layers_in_use() | {each.upper for each in self._rooms.values()}
        for store in sorted(self._stores):
            frozen = [f"/store/{store}/{name}" for name in os.listdir(f"/store/{store}") if name[0] in "um"]
            for layer in frozen:
                if layer not in used:
                    layers.remove(layer, f"/store/{store}")
            if store not in self._rooms and not used.intersection(frozen):
                kernel.unmount(f"/store/{store}")
                os.rmdir(f"/store/{store}")
                self._stores.discard(store)

    # Snapshots

    def do_snapshot(self, *, name: str, idle: list[int], **_: object) -> dict[str, Any]:
        """Keep the tree: freeze its layer if nothing but idle shells lives, or copy it while all stand still."""
        kept = self._rooms[name]
        is_quiet = len(kept.pids()) == len(self._children.pids(idle))
        has_moved = False
        if os.listdir(kept.upper):
            has_moved = is_quiet and freezing.freeze(kept)
            copied = [] if has_moved else [freezing.copy_still(kept, self._num_snapshots, self._children)]
            chain = [*kept.chain, *copied]
        else:
            chain = kept.chain
        self._num_snapshots += 1
        key = f"{name}-{self._num_snapshots}-{self._mark}"
        mode = stat.S_IMODE(os.lstat(kept.upper).st_mode)
        self._snapshots[key] = Snapshot(chain=list(chain), mode=mode, owner=name)
        return {"snapshot": key, "has_moved": has_moved}

    def do_diff(self, *, number: int, fds: list[int], old: str | None, new: str | None, **_: object) -> None:
        """Compare two snapshots in a child; what it finds goes into the descriptor, as JSON."""
        before, after = self._snapshot(old).chain, self._snapshot(new).chain
        child = os.fork()
        if child == 0:
            code = 1
            try:
                freezing.compare(before, after, fds[0])
                code = 0
            finally:
                os._exit(code)
        self._children.follow(child, number, "")

    # What runs

    def do_run(
        self, *, number: int, fds: list[int], name: str, argv: list[str], cwd: str, env: dict[str, str], cpu_s: float,
        **_: object,
    ) -> None:  # fmt: skip
        """Start a command; its end is the answer."""
        order = room.Launch(argv=argv, cwd=cwd, env=env, cpu_s=cpu_s, fds=fds)
        self._children.follow(room.launch(self._rooms[name], order, self._filter), number, name)

    def do_shell(
        self, *, number: int, fds: list[int], name: str, argv: list[str], cwd: str, env: dict[str, str], cpu_s: float,
        rows: int, columns: int, **_: object,
    ) -> None:  # fmt: skip
        """Start a shell on a terminal of its own; the first answer carries that, the second is its end."""
        opened = self._rooms[name]
        far, near = mounts.open_terminal(opened.fds["pts"])
        try:
            room.prepare_terminal(near, rows, columns)
            stdio = [fds[0], near, near, *fds[1:]]
            order = room.Launch(argv=argv, cwd=cwd, env=env, cpu_s=cpu_s, fds=stdio, terminal=near)
            task = self._children.follow(room.launch(opened, order, self._filter), number, name)
            self._children.hold_terminal(number, far)
            self._say(number, {"started": True}, [far, task.pidfd])
        finally:
            os.close(far)
            os.close(near)

    def do_kill(self, *, task: int, **_: object) -> dict[str, Any]:
        """Kill a command and all that descends from it or belongs to its session."""
        self._children.kill(task)
        return {}

    def do_kill_foreground(self, *, task: int, **_: object) -> dict[str, Any]:
        """Kill the group that has a shell's terminal, unless it is the shell itself."""
        return {"killed": self._children.kill_foreground(task)}

    def _look(self, watched: room.Room) -> None:
        pids = watched.pids()
        watched.is_watched = bool(pids)
        sizes = sorted(((census.memory_kb(watched.fds["proc"], pid), pid) for pid in pids), reverse=True)
        excess_kb = sum(size for size, _ in sizes) - (watched.limits.memory_mb << 10)
        for size, pid in sizes:
            if excess_kb <= 0:
                return
            excess_kb -= size
            self._kill_for_memory(watched, pid)

    def _kill_for_memory(self, watched: room.Room, pid: int) -> None:
        with contextlib.suppress(OSError):
            fd = os.open(str(pid), os.O_RDONLY | os.O_DIRECTORY, dir_fd=watched.fds["proc"])
            try:
                self._children.note_out_of_memory(watched.name)
                signal.pidfd_send_signal(fd, signal.SIGKILL)
            finally:
                os.close(fd)

    # Files

    def do_file(self, *, name: str, path: list[str], is_write: bool, **_: object) -> dict[str, Any]:
        """Open a regular file of the room's writable folders as its user; no part of the path may be a link."""
        owner = self._rooms[name]
        folder = {"work": owner.live, "tmp": f"{owner.store}/tmp{owner.top}", "shm": f"{owner.store}/shm{owner.top}"}
        start = os.open(folder[path[0]], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with self._as_user():
            return {"fds": [files.open_beneath(start, path[1:], is_write)]}

    @contextlib.contextmanager
    def _as_user(self) -> Any:
        if self._in_user_mode:
            yield
            return
        os.setegid(room.ROOM_UID)
        os.seteuid(room.ROOM_UID)
        mask = os.umask(0o022)
        try:
            yield
        finally:
            os.umask(mask)
            os.seteuid(0)
            os.setegid(0)


def serve(control: socket.socket, chain: list[str], in_user_mode: bool) -> NoReturn:
    """Say that all is ready, and serve."""
    for number in (signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    os.umask(0)
    keeper = Keeper(control, chain, in_user_mode)
    control.send(READY)
    keeper.serve()
