"""Which walls stand on this host, one line each, and how to get those that do not.

Read from the kernel; nothing is tried or changed. Whether the walls hold is
another question, which `selftest` answers by trying the escapes.
"""

import platform
import sys
from dataclasses import dataclass
from pathlib import Path

from burnish.sandbox import cgroups, host, subordinate
from burnish.sandbox.inside import landlock


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One wall: `state` says what there is; `way` how to get it, empty where it is there."""

    name: str
    is_active: bool
    state: str
    way: str = ""


def all_layers() -> list[Layer]:
    """Look at every wall of the local sandbox."""
    if sys.platform != "linux":
        return [Layer(name="Linux", is_active=False, state=sys.platform, way=host.lacks()[0])]
    return [_kernel(), *_namespaces(), _seccomp(), _landlock(), *_groups(), _uids(), _overlay(), _deadlines()]


def _kernel() -> Layer:
    is_new = not any("newer kernel" in fault for fault in host.lacks())
    return Layer(name="kernel", is_active=is_new, state=platform.release(), way="" if is_new else "Linux 5.9 or later")


def _namespaces() -> list[Layer]:
    wanted = (*host.NAMESPACES, *(() if host.has_admin() else ("user",)))
    found: list[Layer] = []
    for name in wanted:
        is_there = Path(f"/proc/self/ns/{name}").exists()
        way = "" if is_there else "a kernel built with it, and /proc mounted"
        found.append(Layer(name=f"namespace {name}", is_active=is_there, state="new for each job", way=way))
    return found


def _seccomp() -> Layer:
    lines = Path("/proc/self/status").read_text().splitlines()
    is_there = any(line.startswith("Seccomp:") for line in lines)
    way = "" if is_there else "a kernel with CONFIG_SECCOMP_FILTER"
    return Layer(name="seccomp", is_active=is_there, state="socket families, no tracing, no new surface", way=way)


def _landlock() -> Layer:
    abi = landlock.abi()
    way = "" if abi else "Linux 5.13 or later with 'landlock' in the kernel's lsm= list"
    return Layer(name="Landlock", is_active=abi > 0, state=f"version {abi}" if abi else "none", way=way)


def _groups() -> list[Layer]:
    trees = cgroups.trees()
    able = cgroups.usable(trees)
    kind = cgroups.layout(trees)
    way = (
        f"run in a delegated group (systemd-run --user --scope -p Delegate=yes), make one below it, and name it in "
        f"{cgroups.DELEGATED}; or run as root where version 1 is mounted"
    )
    names = {
        "memory": "memory limit",
        "pids": "process limit",
        "cpu": "processor share",
        "cpuacct": "processor time",
        "kill": "kill all at once",
    }
    return [
        Layer(
            name=f"cgroup {label}",
            is_active=ability in able,
            state=f"{kind}, by version {2 if able[ability].is_v2 else 1}" if ability in able else f"{kind}, not usable",
            way="" if ability in able else way,
        )
        for ability, label in names.items()
    ]


def _uids() -> Layer:
    mode = host.identity_mode()
    states = {
        "root": "each job has a uid of its own",
        "range": f"each job has a uid of its own, from the {_num_subordinate()} that /etc/subuid sets aside",
        "user": "each job has a user namespace, but the same uid outside",
    }
    way = "" if mode != "user" else f"run as root, or: {subordinate.HOW}"
    return Layer(name="uid", is_active=mode != "user", state=states[mode], way=way)


def _num_subordinate() -> int:
    found = subordinate.ranges()
    return 0 if found is None else found.count


def _overlay() -> Layer:
    is_known = "overlay" in Path("/proc/filesystems").read_text().split()
    way = "" if is_known else "modprobe overlay; without it, places that last copy their files"
    return Layer(name="overlayfs", is_active=is_known, state="known to the kernel" if is_known else "unknown", way=way)


def _deadlines() -> Layer:
    return Layer(name="deadlines", is_active=True, state="pidfd, RLIMIT_CPU, watcher")
