"""A process that has imported what a run needs and forks one for each order, so that a run starts in a moment.

Whatever a run leaves behind becomes a child of the nursery (it is the subreaper of all below it), so that nothing that
a run started can get away: `living` sees it.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from burnish.core.recipe import read_recipe
from burnish.stages import rl, sft
from burnish.stages.runner import run_recipe
from tests.runtime.test_processes import descendants, is_gone

ROOT = Path(__file__).parents[2]
IMPORTED = (rl, sft)
"""Stages that a run would import by name."""
_PR_SET_CHILD_SUBREAPER = 36


class Order(NamedTuple):
    """One run, from its beginning or from where it was killed."""

    recipe: str
    """A TOML file."""
    runs: str
    log: str
    """Where it writes what it says."""


class Nursery:
    """See the module's docstring. One run at a time."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def start(self, order: Order) -> int:
        """Begin a run; returns its process."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return int(self._line())

    def wait(self) -> int:
        """Wait for the run's end: its exit code, or minus the signal that killed it."""
        return int(self._line())

    def living(self) -> list[int]:
        """All processes that runs have started and that have not ended."""
        return [pid for pid in descendants(self._process.pid) if not is_gone(pid)]

    def _line(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, f"the nursery has ended with {self._process.wait()}"
        return line


@contextmanager
def nursery(temporary: Path) -> Iterator[Nursery]:
    """Open one whose runs put temporary files into that folder."""
    environment = {**os.environ, "TMPDIR": str(temporary), "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.chaos.nursery"], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        cwd=ROOT, env=environment,
    ) as process:  # fmt: skip
        breed = Nursery(process)
        try:
            yield breed
        finally:
            for pid in [*breed.living(), process.pid]:
                os.kill(pid, signal.SIGKILL)


def main() -> None:
    """Take orders, one a line, until there are no more; answer each by its process and then by its exit code."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _run(Order(*json.loads(line)))
        _answer(child)
        _answer(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        _bury()


def _answer(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


def _bury() -> None:
    """Wait for orphans that have ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _run(order: Order) -> None:
    os.setsid()
    log = os.open(order.log, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, file in enumerate((nothing, log, log)):
        os.dup2(file, descriptor)
    code = 70
    try:
        code = run_recipe(read_recipe(Path(order.recipe), []), Path(order.runs), resume=True)
    except BaseException:  # noqa: BLE001  this copy of the nursery must not go on
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
