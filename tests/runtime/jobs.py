"""States and work for workers of tests; in a module of its own, so that a worker can import it without torch."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Desk:
    """A state that counts what was done with it."""

    def __init__(self, note: Path | None = None) -> None:
        self.note, self.count, self.word = note, 0, ""

    def square(self, number: int, sleep_s: float = 0.0) -> int:
        """A small job."""
        time.sleep(sleep_s)
        self.count += 1
        return number * number

    def say(self, word: str) -> str:
        """Keep a word."""
        self.word = word
        return word

    def spoken(self) -> str:
        """The word that is kept."""
        return self.word


class Odd(Exception):
    """An error that does not survive pickling."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} {two}")


@contextmanager
def desk(note: str = "") -> Iterator[Desk]:
    """Opens a desk; writes to `note` when it is left in good order."""
    yield Desk()
    if note:
        Path(note).write_text("left")


@contextmanager
def broken() -> Iterator[Desk]:
    """Cannot be opened."""
    raise ValueError("no such desk")
    yield Desk()


def pid(desk: object) -> int:
    """Where it runs."""
    return os.getpid()


def die(desk: object) -> None:
    """Kill the worker from within."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_once(desk: object, mark: str) -> str:
    """Kill the worker the first time."""
    if not Path(mark).exists():
        Path(mark).write_text("")
        die(desk)
    return "done"


def wait_for(desk: object, mark: str) -> None:
    """Work until a file is there."""
    while not Path(mark).exists():
        time.sleep(0.01)


def start_child(desk: object) -> int:
    """Leave a process behind."""
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid


def raise_odd(desk: object) -> None:
    """An error that cannot be sent."""
    raise Odd(1, 2)


def raise_plain(desk: object) -> None:
    """An error that can."""
    raise ValueError("plain")


def give_unpicklable(desk: object) -> object:
    """A result that cannot be sent."""
    return lambda: None


def work_for_ever(desk: object) -> None:
    """Holds the interpreter."""
    while True:
        pass
