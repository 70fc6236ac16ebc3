"""Control groups of our own below this process's own group: version 1, version 2, both side by side, or none.

A group holds one slot of a fork server: what the slot forks is born in it. So the dear part, moving a
process into a group (tens of milliseconds with version 1), is paid once a slot and never for a job. The
group bounds memory with swap, kernel memory, tmpfs pages and processes for the slot's whole tree, gives it
one share of the processors however many sessions it opens, counts its processor time, tells the kernel's
memory kills apart from others, and kills all at once where the kernel has `cgroup.kill`.

Groups are made below `/proc/self/cgroup`'s own, or below the folder named by BURNISH_CGROUP, which must
then be delegated to us: with version 2 a group that holds processes gives its children no memory or pids
controller, so such a folder is the only way there. A setting of a group that we did not make is never
written. What cannot be made or set is left out: rlimits and the watcher hold without it.

Covered: what `/proc/self/mountinfo` shows, bind mounts included. Run here: version 1 and the hybrid with
a version 2 tree without controllers; version 2 with controllers only against folders of plain files.
"""

import contextlib
import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

DELEGATED: Final = "BURNISH_CGROUP"
WANTED: Final = frozenset({"memory", "pids", "cpu", "cpuacct"})
OUR_NAME: Final = re.compile(r"burnish-(\d+)-(\d+)-\d+")
DYING_S: Final = 5.0
UNLIMITED: Final = 1 << 62
FEWEST_MOST_PIDS: Final = 1 << 15  # a kernel built small has no more, and refuses a larger limit
KILL_SINCE: Final = (5, 14)
LOOK_EVERY_S: Final = 0.005

CPU_SHARES: Final = 335  # of 1024: what the kernel's table gives to the niceness of the fork server, 5
CPU_WEIGHT: Final = 33  # the same of 100

V1_MEMORY_LIMITS: Final = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")

Layout = Literal["v1", "v2", "hybrid", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """One mounted hierarchy: `folder` is this process's own place in it."""

    is_v2: bool
    controllers: frozenset[str]
    folder: Path


def trees(proc: Path = Path("/proc/self")) -> list[Tree]:
    """Find the hierarchies that hold a controller we want, and the one of version 2."""
    try:
        places = dict(_own_places((proc / "cgroup").read_text()))
        mounts = (proc / "mountinfo").read_text().splitlines()
    except OSError:
        return []
    found = [tree for line in mounts if (tree := _tree(line, places)) is not None]
    return [tree for tree in found if tree.is_v2 or tree.controllers & WANTED]


def layout(found: Sequence[Tree]) -> Layout:
    """Name the arrangement."""
    has_v1, has_v2 = any(not tree.is_v2 for tree in found), any(tree.is_v2 for tree in found)
    return "hybrid" if has_v1 and has_v2 else "v1" if has_v1 else "v2" if has_v2 else "none"


def usable(found: Sequence[Tree]) -> dict[str, Tree]:
    """Map each thing that groups of ours can do here to the tree that does it."""
    able: dict[str, Tree] = {}
    for tree in found:
        if not os.access(tree.folder, os.W_OK):
            continue
        for name in tree.controllers & WANTED:
            able[name] = tree
        if tree.is_v2:
            able.setdefault("cpuacct", tree)
            if _can_kill(tree.folder):
                able["kill"] = tree
    return able


class Group:
    """One group over all trees; every number is None or 0 where its tree is not there."""

    def __init__(self, able: dict[str, Tree], name: str) -> None:
        self._able = able
        self.name = name
        self._folders = {tree.folder / name for tree in able.values()}
        self._opened: dict[str, int] = {}
        self._written: dict[str, int] = {}
        self._last_memory_events = b""
        self._num_memory_kills = 0
        for folder in self._folders:
            folder.mkdir()
        if "cpu" in able:
            is_v2 = able["cpu"].is_v2
            self._set("cpu", *(("cpu.weight", CPU_WEIGHT) if is_v2 else ("cpu.shares", CPU_SHARES)))

    def add(self, pid: int) -> None:
        """Move a process in, once for each tree."""
        for folder in self._folders:
            (folder / "cgroup.procs").write_text(str(pid))

    def limit(self, memory_bytes: int, num_processes: int) -> None:
        """Set what the whole group may use; writes only what has changed."""
        if "memory" in self._able:
            is_v2 = self._able["memory"].is_v2
            names = ("memory.max", "memory.swap.max") if is_v2 else V1_MEMORY_LIMITS
            # In version 1 the limit with swap may never be the smaller one: raised first, lowered last.
            is_raised = memory_bytes > self._written.get(V1_MEMORY_LIMITS[0], UNLIMITED)
            for name in reversed(names) if is_raised else names:
                self._set("memory", name, 0 if name == "memory.swap.max" else memory_bytes)
        if "pids" in self._able:
            self._set("pids", "pids.max", min(num_processes, FEWEST_MOST_PIDS))

    def num_memory_kills(self) -> int:
        """How many processes the kernel has killed here for want of memory."""
        for line in self._memory_events().splitlines():
            if line.startswith(b"oom_kill "):
                return int(line.split()[1])
        return 0

    def has_new_memory_kills(self) -> bool:
        """Whether the kernel has killed for want of memory since this was asked last."""
        events = self._memory_events()
        if events == self._last_memory_events:
            return False
        self._last_memory_events = events
        before, self._num_memory_kills = self._num_memory_kills, self.num_memory_kills()
        return self._num_memory_kills > before

    def _memory_events(self) -> bytes:
        if "memory" not in self._able:
            return b""
        return self._read("memory", "memory.events" if self._able["memory"].is_v2 else "memory.oom_control")

    def cpu_s(self) -> float | None:
        """Processor time of all that ever ran here."""
        if "cpuacct" not in self._able:
            return None
        if not self._able["cpuacct"].is_v2:
            return int(self._read("cpuacct", "cpuacct.usage")) / 1e9
        return int(self._read("cpuacct", "cpu.stat").split()[1]) / 1e6

    def kill(self) -> None:
        """Kill everything inside at once, where the kernel can."""
        if "kill" in self._able:
            with contextlib.suppress(OSError):
                (self._folder("kill") / "cgroup.kill").write_text("1")

    def close(self) -> None:
        """Remove the group, whose processes are gone or dying; safe to call twice."""
        while self._opened:
            os.close(self._opened.popitem()[1])
        deadline = time.monotonic() + DYING_S
        while self._folders and time.monotonic() < deadline:
            self._folders = {folder for folder in self._folders if not _is_gone(folder)}
            if self._folders:
                time.sleep(LOOK_EVERY_S)

    def _read(self, ability: str, name: str) -> bytes:
        """Read a file of the group, which stays open: each job asks for some."""
        if name not in self._opened:
            self._opened[name] = os.open(self._folder(ability) / name, os.O_RDONLY | os.O_CLOEXEC)
        return os.pread(self._opened[name], 4096, 0)

    def _folder(self, ability: str) -> Path:
        return self._able[ability].folder / self.name

    def _set(self, ability: str, name: str, value: int) -> None:
        if self._written.get(name) == value:
            return
        path = self._folder(ability) / name
        if path.exists():  # no file of swap where swap is not accounted
            path.write_text(str(value))
            self._written[name] = value


def make_group(number: int, able: dict[str, Tree]) -> Group | None:
    """Make a group named after this process; None where none can be made."""
    if not able:
        return None
    name = f"burnish-{os.getpid()}-{_start_time(os.getpid())}-{number}"
    try:
        return Group(able, name)
    except OSError:
        for tree in able.values():
            _is_gone(tree.folder / name)
        return None


def remove_stale(found: Sequence[Tree]) -> list[Path]:
    """Remove empty groups with our name whose maker no longer lives; say which."""
    removed: list[Path] = []
    for tree in found:
        with contextlib.suppress(OSError):
            for folder in tree.folder.iterdir():
                match = OUR_NAME.fullmatch(folder.name)
                if match and _start_time(int(match[1])) != match[2] and _is_gone(folder):
                    removed.append(folder)
    return removed


def _own_places(text: str) -> Iterator[tuple[str, str]]:
    """Read `/proc/self/cgroup`: controller to path; version 2 has the empty name."""
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            yield controller, path


def _tree(line: str, places: dict[str, str]) -> Tree | None:
    """Read a line of mountinfo, as far as it is a hierarchy that this process is in."""
    fields, _, rest = line.partition(" - ")
    root, mount_point = fields.split()[3:5]
    kind, _, options = rest.split(" ", 2)
    if kind == "cgroup":
        controllers = frozenset(options.split(",")) & places.keys()
        return _at(mount_point, root, places[min(controllers)], controllers, is_v2=False) if controllers else None
    if kind == "cgroup2" and "" in places:
        delegated = os.environ.get(DELEGATED)
        if delegated:
            return Tree(is_v2=True, controllers=_given_to_children(Path(delegated)), folder=Path(delegated))
        tree = _at(mount_point, root, places[""], frozenset[str](), is_v2=True)
        controllers = _given_to_children(tree.folder)
        return Tree(is_v2=True, controllers=controllers, folder=tree.folder)
    return None


def _at(mount_point: str, root: str, path: str, controllers: frozenset[str], *, is_v2: bool) -> Tree:
    below = os.path.relpath(path, root) if path.startswith(root) else "."
    return Tree(is_v2=is_v2, controllers=controllers, folder=Path(os.path.normpath(f"{mount_point}/{below}")))


def _given_to_children(folder: Path) -> frozenset[str]:
    try:
        return frozenset((folder / "cgroup.subtree_control").read_text().split()) & WANTED
    except OSError:
        return frozenset()


def _can_kill(folder: Path) -> bool:
    """Whether groups below have `cgroup.kill` (Linux 5.14); the topmost folder has no such file."""
    if (folder / "cgroup.events").exists():
        return (folder / "cgroup.kill").exists()
    return (folder / "cgroup.procs").exists() and _kernel_version() >= KILL_SINCE


def _kernel_version() -> tuple[int, ...]:
    return tuple(int(word) for word in re.findall(r"\d+", os.uname().release)[:2])


def _is_gone(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _start_time(pid: int) -> str:
    """When a process started, in ticks since boot: with its pid, what no other process has; "" if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""
