"""The first process of a place: it gives up rights, forks for each request, and looks after the sum of all.

Covered: memory and number of files of the whole place, looked at every 20 ms; what has ended is reaped; the death
of this process is the death of all others (the kernel sees to that).
"""

import contextlib
import importlib
import json
import os
import selectors
import signal
import site
import socket
import sys
from typing import Final, NoReturn

from burnish.sandbox.backends.steward import requests, running

LOOK_EVERY_S: Final = 0.02
PR_CAPBSET_DROP: Final = 24
PR_SET_NO_NEW_PRIVS: Final = 38
PR_CAP_AMBIENT: Final = 47
PR_CAP_AMBIENT_CLEAR_ALL: Final = 4
NUM_CAPABILITIES: Final = 64


def serve(
    control_fd: int,
    uid: int,
    memory_mb: int,
    num_files: int,
    folders: list[str],
    preload: list[str],
    site_folders: list[str],
) -> NoReturn:
    """Serve until the outside hangs up; `uid` is 0 if there is no root to give up."""
    assert os.getpid() == 1, "serve is for the first process of a PID namespace"
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for folder in folders:
        os.mkdir(folder, 0o700)
        if uid:
            os.chown(folder, uid, uid)
    if uid:
        _become_user(uid)
    running.prctl(PR_SET_NO_NEW_PRIVS, 1)
    running.prctl(running.PR_SET_DUMPABLE, 0)
    sys.path.extend(site_folders)
    site.setquit()
    sys.dont_write_bytecode = True
    for name in preload:
        importlib.import_module(name)
    sys.path.insert(0, "")
    control = socket.socket(fileno=control_fd)
    socket.send_fds(control, [b"ready"], [os.pidfd_open(1)])
    _Server(control, memory_mb, num_files, folders).run()


def _become_user(uid: int) -> None:
    for capability in range(NUM_CAPABILITIES):
        running.prctl(PR_CAPBSET_DROP, capability)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)  # the last capabilities go with it
    running.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    running.hold_no_capability()  # nor have any that a program could inherit


class _Server:
    def __init__(self, control: socket.socket, memory_mb: int, num_files: int, folders: list[str]) -> None:
        self._control = control
        self._memory_kb = memory_mb << 10
        self._num_inodes = num_files + len(folders) + 1
        self._folders = folders
        self._replies: dict[int, int] = {}
        """Process of who answers -> the end that its answer goes to."""
        self._own_kb = _anonymous_kb(1)

    def run(self) -> NoReturn:
        with selectors.DefaultSelector() as selector:
            selector.register(self._control, selectors.EVENT_READ)
            while True:
                is_busy = bool(self._replies) or len(running.pids()) > 1
                if selector.select(LOOK_EVERY_S if is_busy else None):
                    self._take()
                exceeded = self._exceeded()
                if exceeded:
                    _kill_all_others()
                self._reap(exceeded)

    def _take(self) -> None:
        message, fds, _, _ = socket.recv_fds(self._control, 64, 2)
        if not message:
            os._exit(0)
        request_fd, reply_fd = fds
        child = os.fork()
        if child == 0:
            self._control.close()
            _reply_and_leave(request_fd, reply_fd)
        os.close(request_fd)
        self._replies[child] = reply_fd

    def _exceeded(self) -> str | None:
        memory_kb = sum(max(0, _anonymous_kb(pid) - self._own_kb) for pid in running.pids() if pid != 1)
        if memory_kb > self._memory_kb:
            return "over_memory"
        found = os.statvfs(self._folders[0])
        return "killed" if found.f_files - found.f_ffree > self._num_inodes else None

    def _reap(self, exceeded: str | None) -> None:
        """Reap what has ended; for who ended without an answer, say how."""
        while True:
            try:
                pid, status = os.waitpid(-1, 0 if exceeded else os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            reply_fd = self._replies.pop(pid, None)
            if reply_fd is None:
                continue
            if status != 0:
                with contextlib.suppress(OSError):
                    os.write(reply_fd, b"\n" + json.dumps({"ending": exceeded or "killed"}).encode())
            os.close(reply_fd)


def _kill_all_others() -> None:
    assert os.getpid() == 1  # anywhere but in a namespace of its own this would reach the whole machine
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)


def _reply_and_leave(request_fd: int, reply_fd: int) -> NoReturn:
    code = 1
    with contextlib.suppress(Exception), open(request_fd, "rb") as file:
        view = memoryview(json.dumps(requests.answer(json.loads(file.read()))).encode())
        while view:
            view = view[os.write(reply_fd, view) :]
        code = 0
    os._exit(code)


def _anonymous_kb(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/status") as file:
            return sum(int(line.split()[1]) for line in file if line.startswith(("RssAnon", "RssShmem")))
    except OSError:
        return 0
