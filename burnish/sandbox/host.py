"""What this machine offers: the plan of the sandbox's root, and what is missing for one.

The root holds this interpreter with its standard library, its site-packages, the system's C libraries
and five harmless devices, at paths of its own (`/python`, `/site/0`), since the places they come from
may lie under `/tmp`, `/work` or a home, which the sandbox covers or leaves out. A project installed in
editable mode is a path, not a package folder, and stays outside.

Covered: CPython in a prefix of its own (pyenv, uv, conda, /usr/local) or in /usr; glibc systems, merged
/usr or not. Not covered: Nix stores, musl.
"""

import functools
import itertools
import os
import platform
import sys
import sysconfig
from dataclasses import asdict
from pathlib import Path
from typing import Final, Literal

from burnish.sandbox import cgroups, subordinate
from burnish.sandbox.inside import kernel
from burnish.sandbox.inside.launch import CAP_SYS_ADMIN, Plan
from burnish.sandbox.inside.user_maps import Ranges

OLDEST_KERNEL: Final = (5, 9)  # close_range, proc with subset=pid
NAMESPACES: Final = ("mnt", "pid", "net", "ipc", "uts", "cgroup")
FIRST_JOB_UID: Final = 0x7000_0000  # a range that no distribution hands out
NUM_JOB_UIDS: Final = 0x0F00_0000
_job_numbers = itertools.count()
_group_numbers = itertools.count()


def lacks() -> list[str]:
    """Say what can be seen to be missing without trying."""
    if sys.platform != "linux":
        return [f"Linux: this is {sys.platform!r}; run Burnish in a Linux virtual machine"]
    found: list[str] = []
    if platform.machine() not in kernel.MACHINES:
        found.append(f"a system-call filter for {platform.machine()!r}; there are: {', '.join(kernel.MACHINES)}")
    if _kernel_version() < OLDEST_KERNEL:
        found.append(f"a newer kernel: got {platform.release()!r}, expected 5.9 or later")
    for name in (*NAMESPACES, *(() if has_admin() else ("user",))):
        if not Path(f"/proc/self/ns/{name}").exists():
            found.append(f"{name} namespaces: the kernel was built without them, or /proc is not mounted")
    return found


def next_job_uid() -> int:
    """A uid that no other live job of this process has: on this host, or among the users set aside for the caller."""
    if identity_mode() == "range":
        ranges = _ranges()
        assert ranges is not None
        return 1 + (os.getpid() * 4096 + next(_job_numbers)) % ranges.count
    return FIRST_JOB_UID + (os.getpid() * 4096 + next(_job_numbers) % 4096) % NUM_JOB_UIDS


def how_to_get_it() -> str:
    """Name the ways to a host that can isolate."""
    if has_admin():
        return "start the container with CAP_SYS_ADMIN and without a filter on mount and unshare"
    return (
        "allow unprivileged user namespaces (sysctl user.max_user_namespaces above 0, and where the system "
        "has it kernel.apparmor_restrict_unprivileged_userns=0), or run as root"
    )


@functools.cache
def group_abilities() -> dict[str, cgroups.Tree]:
    """What control groups of ours can do here; what a killed run left of them is removed first."""
    found = cgroups.trees()
    cgroups.remove_stale(found)
    return cgroups.usable(found)


def make_group() -> cgroups.Group | None:
    """Make a control group of this process's own; None where none can be made."""
    return cgroups.make_group(next(_group_numbers), group_abilities())


def has_admin() -> bool:
    """Whether this process may make namespaces without a user namespace."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return os.getuid() == 0 and bool(int(line.split()[1], 16) >> CAP_SYS_ADMIN & 1)
    return False


def _owns_job_uids() -> bool:
    """Whether the job uids exist here: root of a container with few uids has none to give."""
    for line in Path("/proc/self/uid_map").read_text().splitlines():
        first, _, count = map(int, line.split())
        if first <= FIRST_JOB_UID and first + count >= FIRST_JOB_UID + NUM_JOB_UIDS:
            return True
    return False


@functools.cache
def identity_mode() -> Literal["root", "user", "range"]:
    """How jobs are kept apart: by uids of their own, or by user namespaces alone."""
    if has_admin() and _owns_job_uids():
        return "root"
    return "user" if _ranges() is None else "range"


def _ranges() -> Ranges | None:
    """The users set aside for who calls; root has none, and may lack the right to map any."""
    if os.getuid() == 0:
        return None
    return subordinate.usable((os.path.realpath(sys.executable), os.__file__, *_site_folders()))


def plan(control_fd: int, preload: tuple[str, ...]) -> Plan:
    """Plan the root for one fork server."""
    sites = _site_folders()
    inside_sites = [f"/site/{i}" for i in range(len(sites))]
    interpreter = f"/python/bin/python{sysconfig.get_python_version()}"
    mode, ranges = identity_mode(), _ranges()
    return Plan(
        mode=mode,
        ranges=asdict(ranges) if ranges is not None else None,
        control_fd=control_fd,
        binds=[*_python_binds(interpreter), *_library_binds(), *zip(sites, inside_sites, strict=True)],
        links={name: os.readlink(f"/{name}") for name in ("lib", "lib64") if Path(f"/{name}").is_symlink()},
        interpreter=interpreter,
        library_folder="" if sys.base_prefix == "/usr" else f"/python/{sys.platlibdir}",
        site_folders=inside_sites,
        preload=list(preload),
    )


def _kernel_version() -> tuple[int, int]:
    major, minor = platform.release().split(".")[:2]
    return int(major), int("".join(c for c in minor if c.isdigit()) or "0")


def _site_folders() -> list[str]:
    return [p for p in sys.path if Path(p).name in ("site-packages", "dist-packages") and Path(p).is_dir()]


def _python_binds(interpreter: str) -> list[tuple[str, str]]:
    executable = os.path.realpath(sys.executable)
    if sys.base_prefix == "/usr":
        stdlib = sysconfig.get_path("stdlib")
        return [(executable, interpreter), (stdlib, f"/python/{sys.platlibdir}/{Path(stdlib).name}")]
    folder = f"{sys.base_prefix}/{sys.platlibdir}"
    return [(executable, interpreter), (folder, f"/python/{sys.platlibdir}")]


def _library_binds() -> list[tuple[str, str]]:
    of_machine = f"/usr/lib/{sysconfig.get_config_var('MULTIARCH') or platform.machine() + '-linux-gnu'}"
    folders = [of_machine if Path(of_machine).is_dir() else "/usr/lib", "/usr/lib64"]
    folders += [f"/{name}" for name in ("lib", "lib64") if not Path(f"/{name}").is_symlink()]
    return [(path, path) for path in (*folders, "/etc/ld.so.cache") if Path(path).exists()]
