"""The ground that places stand on: a process that enters namespaces, builds the read-only root, starts the keeper.

As root it makes two users that nobody else has, one for the keeper and one for what runs in places, and shows
each layer through an id-mapped mount in which the layer's owner is the place's user. Otherwise both are the
user who called, in a user namespace, and files of others in a layer can be read as their mode says, not changed.

The starter stays as the parent, waits, and ends as the keeper ends. `bare.start("ground")` runs `main`.
"""

import json
import os
import signal
import socket
import sys
from dataclasses import dataclass
from typing import Final, NoReturn

from burnish.sandbox.inside import keeper, kernel, mounts, rlimits
from burnish.sandbox.inside.room import DRY, ROOM_UID

BUILD_AT: Final = "/sys"  # exists everywhere, and holds nothing that is wanted
DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty")
DEVICE_LINKS: Final = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}
ROOM_FOLDERS: Final = ("proc", "dev", "tmp", "work")
KEEPER_FOLDERS: Final = ("base", "mnt", "proc", "store", "layers", *(name.lstrip("/") for name in DRY))
SAFE: Final = kernel.MS_NOSUID | kernel.MS_NODEV


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the root holds. `binds` are (outside, inside), all read-only; in root mode the keeper's uid comes first."""

    mode: str
    control_fd: int
    uids: tuple[int, int]
    layers: list[str]
    rootfs: str | None
    binds: list[tuple[str, str]]
    links: dict[str, str]
    texts: dict[str, str]


def main() -> NoReturn:
    """Take the plan from the command line and carry it out."""
    plan = Plan(**json.loads(sys.argv[1]))
    rlimits.forbid_cores()
    in_user_mode = plan.mode == "user"
    if in_user_mode:
        _become_own_user()
    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    layer_fds = [_take_layer(path, plan) for path in plan.layers]
    _build(plan, layer_fds)
    kernel.enter_root(BUILD_AT)
    held, hold = os.pipe()
    own_fd = os.pidfd_open(os.getpid())
    flags = kernel.NEW_PLACE & ~kernel.CLONE_NEWNS if in_user_mode else kernel.NEW_PLACE | kernel.CLONE_NEWUSER
    forked = kernel.clone(flags, signal.SIGCHLD)
    if forked.pid == 0:
        kernel.die_with(own_fd)
        os.close(hold)
        os.read(held, 1)
        os.close(held)
        _become_keeper(plan, in_user_mode, own_fd)
    if not in_user_mode:
        for kind in ("uid_map", "gid_map"):
            mounts.write(f"/proc/{forked.pid}/{kind}", f"0 {plan.uids[0]} 1\n{ROOM_UID} {plan.uids[1]} 1\n")
    os.write(hold, b"x")
    kernel.close_from(3)
    _, status = os.waitpid(forked.pid, 0)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _become_own_user() -> None:
    uid, gid = os.getuid(), os.getgid()
    kernel.unshare(kernel.CLONE_NEWUSER)
    for name, text in (("setgroups", "deny"), ("gid_map", f"{ROOM_UID} {gid} 1"), ("uid_map", f"{ROOM_UID} {uid} 1")):
        mounts.write(f"/proc/self/{name}", text)


def _take_layer(path: str, plan: Plan) -> int:
    fd = mounts.take(path, is_recursive=plan.mode == "user")
    mounts.restrict(fd, mounts.READ_ONLY)
    owner = os.stat(path)
    if plan.mode == "user":
        return fd
    reader = mounts.id_map(owner.st_uid, owner.st_gid, plan.uids[1], plan.uids[1])
    try:
        mounts.restrict(fd, mounts.ATTR_IDMAP, reader)
    except OSError as error:
        if not mounts.is_unsupported(error):
            raise
        sys.exit(
            f"the filesystem of layer {path!r} has no id-mapped mounts, so files of uid {owner.st_uid} could not be "
            "changed in the place; put the layer on ext4, xfs, btrfs or tmpfs"
        )
    finally:
        os.close(reader)
    return fd


def _build(plan: Plan, layer_fds: list[int]) -> None:
    proc = mounts.take("/proc", is_recursive=True)
    root = mounts.take(plan.rootfs, is_recursive=True) if plan.rootfs else None
    kernel.mount("tmpfs", BUILD_AT, "tmpfs", SAFE, "size=1m,mode=0755")
    for folder in KEEPER_FOLDERS:
        os.makedirs(f"{BUILD_AT}/{folder}", 0o755)
    mounts.put(proc, f"{BUILD_AT}/proc")
    for number, fd in enumerate(layer_fds):
        os.mkdir(f"{BUILD_AT}/layers/{number}")
        mounts.put(fd, f"{BUILD_AT}/layers/{number}")
    if root is None:
        kernel.mount("tmpfs", f"{BUILD_AT}/base", "tmpfs", SAFE, "size=4m,mode=0755")
        _build_own_root(plan, f"{BUILD_AT}/base")
    else:
        _show_given_root(root)
    _build_devices(f"{BUILD_AT}/base/dev")
    if root is None:
        flags = kernel.MS_REMOUNT | kernel.MS_RDONLY | SAFE
        kernel.mount("none", f"{BUILD_AT}/base", None, flags, "size=4m,mode=0755")


def _build_own_root(plan: Plan, base: str) -> None:
    for folder in (*ROOM_FOLDERS, "etc"):
        os.mkdir(f"{base}/{folder}", 0o755)
    for inside, text in plan.texts.items():
        with open(f"{base}{inside}", "w", encoding="utf-8") as file:
            file.write(text)
    for outside, inside in plan.binds:
        target = f"{base}{inside}"
        if os.path.isdir(outside):
            os.makedirs(target, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            open(target, "x").close()
        mounts.bind(outside, target)
    for inside, pointed in plan.links.items():
        os.makedirs(os.path.dirname(f"{base}{inside}"), exist_ok=True)
        os.symlink(pointed, f"{base}{inside}")


def _show_given_root(root: int) -> None:
    """Put the folders that a room is mounted on over the given root, whatever it lacks of them."""
    given, frame = f"{BUILD_AT}/empty/given", f"{BUILD_AT}/empty/frame"
    os.mkdir(given)
    mounts.restrict(root, mounts.READ_ONLY)
    mounts.put(root, given)
    for folder in ROOM_FOLDERS:
        os.makedirs(f"{frame}/{folder}", 0o755)
    kernel.mount("overlay", f"{BUILD_AT}/base", "overlay", SAFE | kernel.MS_RDONLY, f"lowerdir={frame}:{given}")


def _build_devices(dev: str) -> None:
    kernel.mount("tmpfs", dev, "tmpfs", kernel.MS_NOSUID, "size=64k,mode=0755")
    for folder in ("pts", "shm"):
        os.mkdir(f"{dev}/{folder}")
    for name, pointed in DEVICE_LINKS.items():
        os.symlink(pointed, f"{dev}/{name}")
    for device in DEVICES:
        open(f"{dev}/{device}", "x").close()
        mounts.bind(f"/dev/{device}", f"{dev}/{device}", mounts.ATTR_RDONLY | mounts.ATTR_NOSUID)
    flags = kernel.MS_REMOUNT | kernel.MS_RDONLY | kernel.MS_NOSUID
    kernel.mount("none", dev, None, flags, "size=64k,mode=0755")


def _become_keeper(plan: Plan, in_user_mode: bool, starter_fd: int) -> NoReturn:
    if not in_user_mode:
        os.setgroups([])
        os.setresgid(0, 0, 0)
        os.setresuid(0, 0, 0)
        kernel.die_with(starter_fd)  # a change of user has made it forget
    os.close(starter_fd)
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    kernel.mount("proc", "/proc", "proc", SAFE | kernel.MS_NOEXEC)
    kernel.mount("tmpfs", "/store", "tmpfs", SAFE, "size=64k,mode=0700")
    kernel.set_hostname(b"sandbox")
    control = socket.socket(fileno=plan.control_fd)
    chain = [DRY[0], *(f"/layers/{number}" for number in range(len(plan.layers)))]
    keeper.serve(control, chain, in_user_mode)
