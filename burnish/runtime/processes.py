"""A worker as a process of this host, started anew (not forked), in a session and a process group of its own.

Jobs and results go over a socket pair, pickled. The kernel tells of a death at once: the socket ends. A worker whose
driver dies is killed by the kernel (`PR_SET_PDEATHSIG`), in whatever it is computing; elsewhere than on Linux it ends
when it next looks at its socket. What is left of its process group is killed before its number can be used again.

The parent-death signal is about the *thread* that started the worker, so that thread must live as long as the worker
does: a pool's threads do. Not covered: processes that leave the group of the worker that started them.
"""

import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Generic, TypeVar, cast

from burnish.runtime.process_main import Answer
from burnish.runtime.workers import NoAnswer, Opening, WorkerLost

DYING_S = 1.0
S = TypeVar("S")
R = TypeVar("R")

_MAIN = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from burnish.runtime.process_main import main; main(int(sys.argv[2]), int(sys.argv[3]))"
)


class ProcessWorker(Generic[S]):
    """See the module's docstring, and `burnish.runtime.workers.Worker`."""

    def __init__(self, name: str, opening: Opening[S], *, start_timeout_s: float = 300.0, grace_s: float = 5.0) -> None:
        """Start it and wait until its state is open; raises what opening raised."""
        self._name, self._grace_s = name, grace_s
        self._stopping = threading.Lock()
        self._life = threading.Lock()
        self._ending = ""
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _MAIN, json.dumps(sys.path), str(theirs.fileno()), str(os.getpid()), name],
                pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        self._connection = Connection(ours.detach())
        try:
            self._exchange(opening, "it opened", start_timeout_s)
        except BaseException:
            self.stop(at_once=True)
            raise

    @property
    def name(self) -> str:
        """See `Worker`."""
        return self._name

    @property
    def pid(self) -> int:
        """The number of its process and of its group."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """See `Worker`."""
        return not self._ending and _still_runs(self._process.pid)

    def call(self, work: Callable[[S], R], *, timeout_s: float | None = None) -> R:
        """See `Worker`."""
        return cast(R, self._exchange(work, "it worked", timeout_s))

    def stop(self, *, at_once: bool = False) -> None:
        """See `Worker`."""
        if at_once:
            self._kill()
        with self._stopping:
            if self._ending:
                return
            _shut(self._connection)
            self._await_end(0 if at_once else self._grace_s)
            self._ending = self._bury()

    def _await_end(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not self._ending and _still_runs(self._process.pid) and time.monotonic() < deadline:
            time.sleep(0.005)

    def _exchange(self, sent: object, what: str, timeout_s: float | None) -> object:
        data = pickle.dumps(sent)
        try:
            self._connection.send_bytes(data)
            if not self._connection.poll(timeout_s):
                raise NoAnswer(f"worker {self._name!r} gave no answer within {timeout_s} s and was ended")
            answer: Answer = pickle.loads(self._connection.recv_bytes())
        except (EOFError, OSError) as error:
            self._await_end(DYING_S)  # it has let go of its connection, and its death may still be under way
            self.stop(at_once=True)
            raise WorkerLost(f"worker {self._name!r} (process {self.pid}) {self._ending} while {what}") from error
        except WorkerLost:
            self.stop(at_once=True)
            raise
        if answer.error is not None:
            raise answer.error
        return answer.result

    def _kill(self) -> None:
        with self._life:
            if self._process.returncode is None:
                _kill_group(self._process.pid)

    def _bury(self) -> str:
        """Kill what is left of the group, then give its number back; returns how the worker ended."""
        with self._life:
            was_running = _still_runs(self._process.pid)
            _kill_group(self._process.pid)
            code = self._process.wait()
        self._connection.close()
        if was_running:
            return "was ended"
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def _still_runs(pid: int) -> bool:
    """Whether a child of ours runs; one that has ended stays to be waited for."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:  # another thread has waited for it
        return False


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # the group is empty; macOS says so of one that has only zombies
        return


def _shut(connection: Connection) -> None:
    """End both directions: the worker, and a thread of ours that waits for it, see the end of the stream."""
    with socket.socket(fileno=os.dup(connection.fileno())) as same:
        try:
            same.shutdown(socket.SHUT_RDWR)
        except OSError:  # the other end is gone
            return
