"""What the keeper has forked and the outside waits for: followed to its end, which is the answer to its order."""

import contextlib
import os
import select
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from burnish.sandbox.inside import census


@dataclass(slots=True, kw_only=True)
class Child:
    """A child whose end the outside waits for, under the number of its order."""

    pid: int
    pidfd: int
    number: int
    room: str
    ran_out_of_memory: bool = False


class Children:
    """All that live, by the numbers of their orders, and the terminals of those that are shells."""

    def __init__(self, poll: select.poll, say: Callable[[int, dict[str, Any]], None]) -> None:
        """`poll` is told of each; `say` answers an order."""
        self._poll, self._say = poll, say
        self._living: dict[int, Child] = {}
        self._terminals: dict[int, int] = {}

    def follow(self, pid: int, number: int, room: str) -> Child:
        """Answer an order with the end of this child."""
        child = Child(pid=pid, pidfd=os.pidfd_open(pid), number=number, room=room)
        self._living[number] = child
        self._poll.register(child.pidfd, select.POLLIN)
        return child

    def hold_terminal(self, number: int, far: int) -> None:
        """Keep the far end of a shell's terminal as long as the shell lives."""
        self._terminals[number] = os.dup(far)

    def pids(self, numbers: Iterable[int]) -> set[int]:
        """The processes of those that still live."""
        return {self._living[number].pid for number in numbers if number in self._living}

    def note_out_of_memory(self, room: str) -> None:
        """Something of this room is killed for its memory."""
        for child in self._living.values():
            child.ran_out_of_memory |= child.room == room

    def kill(self, number: int) -> None:
        """Kill a child and all that descends from it or belongs to its session."""
        if number in self._living:
            census.kill_tree(self._living[number].pid)

    def kill_foreground(self, number: int) -> bool:
        """Kill the group that has a shell's terminal, unless it is the shell itself; whether there was one."""
        found, far = self._living.get(number), self._terminals.get(number)
        group = os.tcgetpgrp(far) if found is not None and far is not None else 0
        is_other = found is not None and group > 1 and group != found.pid
        if is_other:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        return is_other

    def reap(self, until: int = 0) -> None:
        """Reap whoever has ended; with `until`, wait until that one has."""
        while True:
            try:
                pid, status = os.waitpid(-1, 0 if until else os.WNOHANG)
            except ChildProcessError:
                return
            self._note_end(pid, status)
            if pid == until:
                return

    def _note_end(self, pid: int, status: int) -> None:
        child = next((each for each in self._living.values() if each.pid == pid), None)
        if child is None:
            return
        del self._living[child.number]
        self._poll.unregister(child.pidfd)
        os.close(child.pidfd)
        if child.number in self._terminals:
            os.close(self._terminals.pop(child.number))
        code = os.waitstatus_to_exitcode(status)
        self._say(child.number, {"code": code, "ran_out_of_memory": child.ran_out_of_memory})
