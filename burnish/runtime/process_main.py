"""What a worker process of this host runs: open the state, then answer until the driver is gone."""

import ctypes
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection

from burnish.core.errors import BurnishError

_PR_SET_PDEATHSIG = 1


class WorkFault(BurnishError):
    """Work raised something, or returned something, that cannot be sent from process to process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of a job: the result, or the error."""

    result: object = None
    error: BaseException | None = None


def main(descriptor: int, driver: int) -> None:
    """Serve the socket that was inherited as `descriptor`, for as long as process `driver` lives."""
    os.set_inheritable(descriptor, False)
    _die_with(driver)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = Connection(descriptor)
    try:
        _serve(connection)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the driver has closed its end, or is gone


def _serve(connection: Connection) -> None:
    with ExitStack() as stack:
        try:
            state = stack.enter_context(pickle.loads(connection.recv_bytes())())
        except Exception as error:  # noqa: BLE001  the driver hears of it
            connection.send_bytes(_told(error))
            return
        connection.send_bytes(pickle.dumps(Answer()))
        while (job := _next(connection)) is not None:
            connection.send_bytes(_answer(job, state))


def _next(connection: Connection) -> bytes | None:
    """The next job; None when the driver has closed its end, so that the state is left in good order."""
    try:
        return connection.recv_bytes()
    except (EOFError, ConnectionResetError):
        return None


def _answer(job: bytes, state: object) -> bytes:
    try:
        work: Callable[[object], object] = pickle.loads(job)
        return pickle.dumps(Answer(result=work(state)))
    except Exception as error:  # noqa: BLE001  it is raised where the job came from
        return _told(error)


def _told(error: Exception) -> bytes:
    """An error with where it happened; as text where it does not survive the way."""
    error.add_note("in the worker:\n" + "".join(traceback.format_exception(error)))
    try:
        data = pickle.dumps(Answer(error=error))
        pickle.loads(data)
    except Exception:  # noqa: BLE001  whatever an error's own pickling may raise
        return pickle.dumps(Answer(error=WorkFault("".join(traceback.format_exception(error)))))
    return data


def _die_with(driver: int) -> None:
    """Be killed when the thread that started this process ends; end now if that has happened already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != driver:
        sys.exit(1)
