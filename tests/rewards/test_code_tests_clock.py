"""A process is held to its own time: a busy host costs it nothing, and waiting does."""

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from burnish.rewards.code_tests_clock import Deadline

WALL_S = 0.5
NUM_RIVALS = 3


@contextmanager
def child(spins: bool) -> Iterator[int]:
    """A process on our own processor, that spins or sleeps."""
    pid = os.fork()
    if pid == 0:
        while spins:
            pass
        time.sleep(60)
        os._exit(0)
    try:
        yield pid
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="this kernel does not count it")
@pytest.mark.parametrize("spins", [True, False])
def test_only_a_process_that_waits_by_itself_waits_for_too_long(spins: bool) -> None:
    processors = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(processors)})
    try:
        with ExitStack() as stack:
            for _ in range(NUM_RIVALS):
                stack.enter_context(child(spins=True))
            pid = stack.enter_context(child(spins))
            deadline = Deadline(pid, 60.0, WALL_S)
            time.sleep(2 * WALL_S)
            if spins:
                deadline.check()
            else:
                with pytest.raises(TimeoutError, match="waited for too long"):
                    deadline.check()
    finally:
        os.sched_setaffinity(0, processors)
