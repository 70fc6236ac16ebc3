"""The fork server: it has imported what jobs want, and makes a cell for each order that comes in.

Single-threaded, no secret, no descriptor but the control socket and its own stderr. It is pid 1 of a
PID namespace around all of its jobs: when it dies, for whatever reason, they all do.
"""

import gc
import importlib
import json
import os
import signal
import site
import socket
import sys
from collections.abc import Sequence
from typing import NoReturn

from burnish.sandbox.inside import cell, kernel, pages, seccomp

READY = b"ready"
NUM_DESCRIPTORS = 6


def main(control_fd: int, mode: str, site_folders: Sequence[str], preload: Sequence[str]) -> NoReturn:
    """Prepare, say so, and serve until the outside hangs up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.path[:] = [folder for folder in sys.path if not folder.startswith("/zygote")] + list(site_folders)
    site.setquit()
    for name in preload:
        importlib.import_module(name)
    sys.path.insert(0, "/work")
    sys.dont_write_bytecode = True
    seccomp_filter = seccomp.build()
    gc.collect()
    gc.freeze()
    pages.collapse()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps
    control = socket.socket(fileno=control_fd)
    control.send(READY)
    while True:
        message, fds, _, _ = socket.recv_fds(control, 1 << 16, NUM_DESCRIPTORS)
        if not message:
            os._exit(0)
        _open_cell(control, message, fds, seccomp_filter, in_user_namespace=mode == "user")


def _open_cell(
    control: socket.socket, message: bytes, fds: list[int], seccomp_filter: seccomp.Program, in_user_namespace: bool
) -> None:
    own_user = kernel.CLONE_NEWUSER if in_user_namespace else 0
    forked = kernel.clone(kernel.NEW_PLACE | own_user, signal.SIGCHLD)
    if forked.pid == 0:
        control.close()
        link, payload, stdin, stdout, stderr, answer = fds
        names = cell.Descriptors(link=link, payload=payload, stdin=stdin, stdout=stdout, stderr=stderr, answer=answer)
        cell.live(cell.Order(**json.loads(message)), names, seccomp_filter, in_user_namespace)
    with socket.socket(fileno=fds[0]) as link:
        try:
            socket.send_fds(link, [b"P"], [forked.pidfd])
        except BrokenPipeError:
            os.kill(forked.pid, signal.SIGKILL)  # the outside gave this job up
    for fd in (*fds[1:], forked.pidfd):
        os.close(fd)
