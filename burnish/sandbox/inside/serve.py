"""The fork server: it has imported what jobs want, and makes a cell for each order that comes in.

Single-threaded, no secret, no descriptor but the control socket and its own stderr. It is pid 1 of a
PID namespace around all of its jobs: when it dies, for whatever reason, they all do.

It also forks *slots*, servers like itself with a control socket of their own. Jobs come from slots: they
fork side by side, and a slot can be put into a cgroup once, which takes the kernel milliseconds, while
what it forks is born there.
"""

import contextlib
import gc
import importlib
import os
import signal
import site
import socket
import sys
import types
from collections.abc import Sequence
from typing import Final, NoReturn

from burnish.sandbox.inside import cell, kernel, landlock, pages, seccomp

READY: Final = b"ready"
OPEN_SLOT: Final = b"slot"
NICENESS: Final = 5
_hidden: list[types.ModuleType] = []
_held_mounts: list[int] = []


def main(control_fd: int, mode: str, site_folders: Sequence[str], preload: Sequence[str]) -> NoReturn:
    """Prepare, say so, and serve until the outside hangs up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.path[:] = [folder for folder in sys.path if not folder.startswith("/zygote")] + list(site_folders)
    site.setquit()
    for name in preload:
        importlib.import_module(name)
    sys.path.insert(0, "/work")
    sys.dont_write_bytecode = True
    for name in [name for name in sys.modules if name == "burnish" or name.startswith("burnish.")]:
        _hidden.append(sys.modules.pop(name))  # from jobs; ours stay alive here
    walls = cell.Walls(seccomp.build(), landlock.abi(), mode == "user")
    kernel.keep_capabilities(lambda capability: False)  # of what an exec could bring back; what is held stays
    give_way()
    gc.collect()
    gc.freeze()
    pages.collapse()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps
    control = socket.socket(fileno=control_fd)
    control.send(READY)
    _serve(control, walls)


def give_way() -> None:
    """Run behind what samples and trains: its threads wait for each other, and lose 8 ms where a job takes a turn.

    Where the kernel groups tasks by session, the group's niceness is what counts; each slot has its own session.
    What was started nicer than that stays as it is: without rights there is no way back.
    """
    niceness = max(NICENESS, os.getpriority(os.PRIO_PROCESS, 0))
    os.setpriority(os.PRIO_PROCESS, 0, niceness)
    with contextlib.suppress(OSError), open("/proc/self/autogroup", "wb") as autogroup:
        autogroup.write(b"%d" % niceness)


def _serve(control: socket.socket, walls: cell.Walls) -> NoReturn:
    while True:
        message, fds, _, _ = socket.recv_fds(control, 1 << 16, 1)
        if not message:
            os._exit(0)
        if message == OPEN_SLOT:
            _open_slot(control, fds[0], walls)
        else:
            _open_cell(control, message, fds[0], walls)


def _open_slot(control: socket.socket, slot_fd: int, walls: cell.Walls) -> None:
    forked = kernel.clone(0, signal.SIGCHLD)
    if forked.pid == 0:
        control.close()
        os.setsid()
        give_way()
        _serve(socket.socket(fileno=slot_fd), walls)
    _hand_out(slot_fd, forked)


def _open_cell(control: socket.socket, message: bytes, link_fd: int, walls: cell.Walls) -> None:
    own_user = kernel.CLONE_NEWUSER if walls.has_user_namespace else 0
    # The cell runs no code of others, so Python's own after-fork work waits for its program's fork.
    forked = kernel.clone(kernel.NEW_PLACE | own_user, signal.SIGCHLD, has_hooks=False)
    if forked.pid == 0:
        os.close(control.fileno())
        for fd in _held_mounts:
            os.close(fd)
        cell.live(cell.Order(*cell.ORDER.unpack(message)), link_fd, walls)
    _hand_out(link_fd, forked)
    _keep_mounts(forked.pid)


def _keep_mounts(pid: int) -> None:
    """Hold the newest cell's mounts until the next one is made: taking them down is no part of a job's end."""
    with contextlib.suppress(OSError):
        _held_mounts.append(os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC))
    while len(_held_mounts) > 1:
        os.close(_held_mounts.pop(0))


def _hand_out(fd: int, forked: kernel.Forked) -> None:
    """Give the outside the handle of what was forked, and keep nothing."""
    with socket.socket(fileno=fd) as link:
        try:
            socket.send_fds(link, [b"P"], [forked.pidfd])
        except OSError:
            os.kill(forked.pid, signal.SIGKILL)  # the outside gave it up
    os.close(forked.pidfd)
