"""The command line of one `bwrap`: a root built from nothing, and the steward as its first process.

Everything writable is one tmpfs at `/scratch`. The first process keeps, as root, only what it needs to become
nobody; what of `/proc` is about the machine is covered.
"""

import ctypes
import itertools
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from burnish.sandbox import host
from burnish.sandbox.backends.stewarded import steward_source
from burnish.sandbox.inside import rlimits, seccomp
from burnish.sandbox.inside.launch import DEVICES, LINKS, USERS, Plan
from burnish.sandbox.memfds import sealed
from burnish.sandbox.types import ResourceLimits

FIRST_UID: Final = 0x6000_0000  # beside those of the jobs of `namespaces`
NUM_UIDS: Final = 0x0F00_0000
ROOTS: Final = {"/work": "/scratch/work", "/tmp": "/scratch/tmp", "/dev/shm": "/scratch/shm"}
HIDDEN_FOLDERS: Final = ("sys", "acpi", "asound", "bus", "fs", "irq", "scsi", "driver")
HIDDEN_FILES: Final = ("kcore", "keys", "kmsg", "latency_stats", "sched_debug", "sysrq-trigger", "timer_list")
GROUPS: Final = "root:x:0:\njob:x:1000:\n"
ROOT_CAPABILITIES: Final = ("CAP_CHOWN", "CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")
_numbers = itertools.count()


def command(
    program: str, control_fd: int, limits: ResourceLimits, preload: tuple[str, ...], has_tools: bool, stack: ExitStack
) -> tuple[list[str], list[int]]:
    """Write the command line, and open the descriptors that it names."""
    plan = host.plan(control_fd, preload)
    is_root = plan.mode == "root"
    fds = [sealed(text, "burnish") for text in (_filter_bytes(), USERS.encode(), GROUPS.encode())]
    for fd in fds:
        stack.callback(os.close, fd)
    order = {
        "control_fd": control_fd,
        "uid": FIRST_UID + (os.getpid() * 4096 + next(_numbers) % 4096) % NUM_UIDS if is_root else 0,
        "memory_mb": limits.memory_mb,
        "num_files": limits.num_files,
        "folders": list(ROOTS.values()),
        "preload": list(preload),
        "site_folders": plan.site_folders,
    }
    inside = steward_source(f"from burnish.sandbox.backends.steward import server; server.serve(**{order!r})")
    return [
        *_without_cores(),
        program,
        *("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"),
        "--new-session",
        "--die-with-parent",
        "--as-pid-1",
        "--clearenv",
        "--cap-drop",
        "ALL",
        *_users(is_root),
        *_root(plan, has_tools),
        *("--ro-bind-data", str(fds[1]), "/etc/passwd", "--ro-bind-data", str(fds[2]), "/etc/group"),
        *("--size", str(limits.disk_mb << 20), "--perms", "0711", "--tmpfs", "/scratch"),
        *(word for outside, inside in ROOTS.items() for word in ("--symlink", inside, outside)),
        *_hidden(),
        *_environment(plan),
        *("--remount-ro", "/proc", "--remount-ro", "/", "--chdir", "/scratch", "--seccomp", str(fds[0])),
        *("--", plan.interpreter, "-I", "-S", "-X", "utf8", "-c", inside),
    ], fds


def _without_cores() -> list[str]:
    """Set the limit on cores before bwrap, within which the filter keeps it as it is; prlimit is of util-linux."""
    found = shutil.which("prlimit")
    return [found, f"--core={rlimits.CORE_BYTES}:{rlimits.CORE_BYTES}"] if found else []


def _filter_bytes() -> bytes:
    built = seccomp.build()
    return ctypes.string_at(built.instructions, built.length * ctypes.sizeof(seccomp.Instruction))


def _users(is_root: bool) -> list[str]:
    """As root, keep what the steward needs to become nobody; else have a user namespace, and no other below it."""
    if is_root:
        return [word for name in ROOT_CAPABILITIES for word in ("--cap-add", name)] + ["--hostname", "sandbox"]
    return ["--unshare-user", "--disable-userns", "--uid", "1000", "--gid", "1000", "--hostname", "sandbox"]


def _root(plan: Plan, has_tools: bool) -> Iterator[str]:
    for folder in sorted({str(above) for _, inside in plan.binds for above in Path(inside).parents} - {"/"}):
        if not (has_tools and f"{folder}/".startswith("/usr/")):
            yield from ("--dir", folder)  # bwrap itself would make it for root alone
    yield from ("--dir", "/dev", "--dir", "/etc")
    if has_tools:
        yield from ("--ro-bind", "/usr", "/usr")
        if Path("/etc/alternatives").is_dir():
            yield from ("--ro-bind", "/etc/alternatives", "/etc/alternatives")
    for outside, inside in plan.binds:
        yield from ("--ro-bind", outside, inside)
    for name in ("bin", "sbin", "lib", "lib64"):
        path = Path(f"/{name}")
        if path.is_symlink() and (has_tools or name in plan.links):
            yield from ("--symlink", os.readlink(path), f"/{name}")
        elif has_tools and path.is_dir() and f"/{name}" not in dict(plan.binds):
            yield from ("--ro-bind", f"/{name}", f"/{name}")
    for name in DEVICES:
        yield from ("--dev-bind", f"/dev/{name}", f"/dev/{name}")
    for inside, target in LINKS.items():
        yield from ("--symlink", target, f"/{inside}")
    yield from ("--proc", "/proc")


def _hidden() -> Iterator[str]:
    """Cover what of `/proc` is about the machine."""
    for name in HIDDEN_FOLDERS:
        if Path(f"/proc/{name}").is_dir():
            yield from (
                "--size",
                "4096",
                "--perms",
                "0555",
                "--tmpfs",
                f"/proc/{name}",
                "--remount-ro",
                f"/proc/{name}",
            )
    for name in HIDDEN_FILES:
        if Path(f"/proc/{name}").exists():
            yield from ("--ro-bind", "/dev/null", f"/proc/{name}")


def _environment(plan: Plan) -> Iterator[str]:
    variables = {
        "PATH": "/python/bin:/usr/local/bin:/usr/bin:/bin",
        "HOME": "/work",
        "TMPDIR": "/tmp",
        "LANG": "C.UTF-8",
        "PYTHONUTF8": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": ":".join(plan.site_folders),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }
    if plan.library_folder:
        variables["LD_LIBRARY_PATH"] = plan.library_folder
    for name, value in variables.items():
        yield from ("--setenv", name, value)
