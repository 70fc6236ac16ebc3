"""Build the minimal read-only root, move into it, and become the fork server there.

Two processes: one enters the new namespaces and waits; its child, pid 1 of the new PID namespace,
builds the root on a tmpfs, pivots into it, gives up the capabilities that serving does not need, and
executes the same Python from within. Nothing of the old root stays mounted. The first dies with the
second, and the second with the first.

The tmpfs is mounted over `/sys`, a folder that exists everywhere and never holds a Python.
"""

import json
import os
import sys
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from burnish.sandbox.inside import kernel, rlimits, user_maps

BUILD_AT: Final = "/sys"
FOLDERS: Final = ("proc", "dev", "dev/shm", "etc", "tmp", "work", "scratch", "zygote")
DEVICES: Final = ("null", "zero", "full", "random", "urandom")
LINKS: Final = {"dev/fd": "/proc/self/fd", "dev/stdin": "fd/0", "dev/stdout": "fd/1", "dev/stderr": "fd/2"}
USERS: Final = "root:x:0:0::/:\njob:x:1000:1000::/work:\n"
LOCKED_FLAGS: Final = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC | kernel.MS_NOATIME | kernel.MS_NODIRATIME
SERVE: Final = (
    "import json, sys; sys.path.insert(0, '/zygote'); sys.dont_write_bytecode = True;"
    "from burnish.sandbox.inside import serve; serve.main(**json.loads(sys.argv[1]))"
)
CAP_CHOWN, CAP_KILL, CAP_SETGID, CAP_SETUID, CAP_SETPCAP, CAP_SYS_ADMIN, CAP_SETFCAP = 0, 5, 6, 7, 8, 21, 31
# The last is what the kernel asks of whoever maps its root into a user namespace below.
SERVER_CAPABILITIES: Final = frozenset(
    {CAP_CHOWN, CAP_KILL, CAP_SETGID, CAP_SETUID, CAP_SETPCAP, CAP_SYS_ADMIN, CAP_SETFCAP}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the root holds. `binds` are (outside, inside), all read-only.

    `mode`: `root`, or `user`, who is alone in a namespace, or `range`, who has `ranges` of other users in there.
    """

    mode: str
    control_fd: int
    binds: list[tuple[str, str]]
    links: dict[str, str]
    interpreter: str
    library_folder: str
    site_folders: list[str]
    preload: list[str]
    ranges: dict[str, Any] | None = None


def main() -> NoReturn:
    """Take the plan from the command line and carry it out."""
    plan = Plan(**json.loads(sys.argv[1]))
    rlimits.forbid_cores()
    if plan.mode == "user":
        user_maps.become_root_of_one()
    elif plan.ranges:
        user_maps.become_root_of_range(user_maps.Ranges(**plan.ranges))
    kernel.unshare(kernel.NEW_PLACE)
    own_fd = os.pidfd_open(os.getpid())
    child = os.fork()
    if child:
        os.close(plan.control_fd)
        _, status = os.waitpid(child, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    kernel.die_with(own_fd)
    _build_root(plan)
    kernel.set_hostname(b"sandbox")
    kernel.keep_capabilities(SERVER_CAPABILITIES.__contains__)
    _become_server(plan)


def _build_root(plan: Plan) -> None:
    own_sources = _own_sources()
    safe = kernel.MS_NOSUID | kernel.MS_NODEV
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("tmpfs", BUILD_AT, "tmpfs", safe, "size=4m,mode=0755")
    for folder in FOLDERS:
        os.mkdir(f"{BUILD_AT}/{folder}", 0o755)
    for inside, target in (plan.links | LINKS).items():
        os.symlink(target, f"{BUILD_AT}/{inside}")
    for outside, inside in plan.binds:
        _bind_read_only(outside, f"{BUILD_AT}{inside}", safe)
    for device in DEVICES:
        _bind_read_only(f"/dev/{device}", f"{BUILD_AT}/dev/{device}", kernel.MS_NOSUID | kernel.MS_NOEXEC)
    _write(f"{BUILD_AT}/etc/passwd", USERS)
    for name, text in own_sources.items():
        _write(f"{BUILD_AT}/zygote/burnish/sandbox/inside/{name}", text)
    kernel.mount("proc", f"{BUILD_AT}/proc", "proc", safe | kernel.MS_NOEXEC)
    for folder in ("tmp", "work"):  # for what a preload writes; each job's own covers them
        kernel.mount("tmpfs", f"{BUILD_AT}/{folder}", "tmpfs", safe, "size=16m,mode=0755")
    kernel.enter_root(BUILD_AT)
    kernel.mount("none", "/", None, kernel.MS_REMOUNT | kernel.MS_RDONLY | safe, "size=4m,mode=0755")


def _own_sources() -> dict[str, str]:
    folder = os.path.dirname(os.path.abspath(__file__))
    sources: dict[str, str] = {}
    for name in os.listdir(folder):
        if name.endswith(".py"):
            with open(f"{folder}/{name}") as file:
                sources[name] = file.read()
    return sources


def _write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def _bind_read_only(outside: str, inside: str, flags: int) -> None:
    if os.path.isdir(outside):
        os.makedirs(inside, exist_ok=True)
    else:
        _write(inside, "")
    kernel.mount(outside, inside, None, kernel.MS_BIND)
    # What the source's mount forbids must be said again: a user namespace may not take it back.
    locked = os.statvfs(inside).f_flag & LOCKED_FLAGS
    kernel.mount("none", inside, None, kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | flags | locked)


def _become_server(plan: Plan) -> NoReturn:
    environment = {
        "PATH": "/python/bin",
        "HOME": "/work",
        "TMPDIR": "/tmp",
        "LANG": "C.UTF-8",
        "PYTHONUTF8": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": ":".join(plan.site_folders),
        "LD_LIBRARY_PATH": plan.library_folder,
        "LD_BIND_NOW": "1",  # each fork would look up anew what is looked up at first use
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }
    order = {
        "control_fd": plan.control_fd,
        "mode": plan.mode,
        "site_folders": plan.site_folders,
        "preload": plan.preload,
    }
    command = [plan.interpreter, "-I", "-S", "-X", "utf8", "-c", SERVE, json.dumps(order)]
    os.execve(plan.interpreter, command, environment)
