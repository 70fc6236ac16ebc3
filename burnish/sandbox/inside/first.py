"""The first process of the PID namespace that jobs run in: it holds the namespace open, and can do nothing else.

It brings the namespace's `/proc`, gives up its rights, and reaps whoever is orphaned, so that the processor time
of each counts as its children's. When it is killed, the kernel kills all others in there.
"""

import os
import signal
from typing import Final, NoReturn

from burnish.sandbox.inside import kernel, seccomp

READY: Final = b"r"
ORPHANED: Final = (signal.SIGCHLD,)


def live(begin_fd: int, told_fd: int, seccomp_filter: seccomp.Program) -> NoReturn:
    """Begin when told, say READY once `/proc` is there and all rights are gone; then reap until killed."""
    os.eventfd_read(begin_fd)
    flags = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC | kernel.MS_RDONLY  # or a job could set its own files
    kernel.mount("proc", "/proc", "proc", flags, "subset=pid")
    kernel.hold_no_capability()
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    seccomp.install(seccomp_filter)
    signal.pthread_sigmask(signal.SIG_BLOCK, ORPHANED)
    os.dup2(told_fd, 0)
    kernel.close_from(1)
    os.write(0, READY)
    os.close(0)
    while True:
        signal.sigwait(ORPHANED)
        kernel.reap()
