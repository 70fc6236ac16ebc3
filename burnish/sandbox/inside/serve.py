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
import resource
import signal
import site
import socket
import sys
import types
from collections.abc import Sequence
from typing import Final, NoReturn

from burnish.sandbox.inside import cell, entry, kernel, landlock, pages, program, rlimits, seccomp

READY: Final = b"ready"
OPEN_SLOT: Final = b"slot"
NICENESS: Final = 5
NUM_WARM_RUNS: Final = 20
FIXED_LIMITS: Final = (
    (resource.RLIMIT_NOFILE, entry.MAX_DESCRIPTORS),
    (resource.RLIMIT_MEMLOCK, 0),
    (resource.RLIMIT_MSGQUEUE, 0),
    (resource.RLIMIT_SIGPENDING, 256),
)
_hidden: list[types.ModuleType] = []


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
    proc_fd = os.open("/proc", os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    walls = cell.Walls(seccomp.build(), landlock.abi(), mode == "user", proc_fd)
    if mode != "user":
        os.setgroups([])
    os.umask(0o022)
    os.environ.pop("LD_BIND_NOW")
    os.environ["BURNISH_ANSWER_FD"] = str(entry.ANSWER_FD)
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    _open_streams()
    _warm_up()
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


def _open_streams() -> None:
    """Open the streams of all jobs here, while their descriptors are of the kind that a job's will be."""
    kept = os.dup(1), os.dup(2)
    ends = os.pipe()
    os.dup2(ends[1], 1)
    os.dup2(ends[1], 2)
    program.open_streams()
    os.dup2(kept[0], 1)
    os.dup2(kept[1], 2)
    for fd in (*kept, *ends):
        os.close(fd)


def _warm_up() -> None:
    """Let the interpreter make here what it makes at first use, in pages that a job's process then need not copy."""
    program.new_main()
    for _ in range(NUM_WARM_RUNS):
        exec(compile("0", program.FILE_NAME, "exec", dont_inherit=True), {})


def _serve(control: socket.socket, walls: cell.Walls) -> NoReturn:
    """Fork slots."""
    while True:
        message, fds, _, _ = socket.recv_fds(control, 1 << 16, 1)
        if not message:
            os._exit(0)
        _open_slot(control, fds[0], walls)


def _open_slot(control: socket.socket, slot_fd: int, walls: cell.Walls) -> None:
    forked = kernel.clone(0, signal.SIGCHLD)
    if forked.pid == 0:
        control.close()
        os.setsid()
        give_way()
        _serve_jobs(socket.socket(fileno=slot_fd), walls)
    with socket.socket(fileno=slot_fd) as link:
        try:
            socket.send_fds(link, [cell.HANDLE], [forked.pidfd])
        except OSError:
            os.kill(forked.pid, signal.SIGKILL)  # the outside gave it up
    os.close(forked.pidfd)


def _serve_jobs(control: socket.socket, walls: cell.Walls) -> NoReturn:
    """Be a slot: one job after another, in one cell, which is made once this process is in its control group."""
    kernel.set_signal(signal.SIGCHLD, int(signal.SIG_DFL))
    kernel.set_signal(signal.SIGINT, signal.default_int_handler)
    for name, value in FIXED_LIMITS:
        rlimits.lower(name, value, value)
    place = None
    while True:
        message, fds, _, _ = socket.recv_fds(control, 1 << 16, 1)
        if not message:
            os._exit(0)
        place = place or cell.Cell(walls)
        link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, fileno=fds[0])
        place.run(entry.Order(*cell.ORDER.unpack(message)), link)
