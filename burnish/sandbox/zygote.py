"""One fork server, seen from outside: start it, hand it jobs, stop it.

Jobs run in its slots (`slot.py`), which a thread opens behind the first jobs: each is a fork of the server
in a control group of its own, if the system gives one. Orders travel over SOCK_SEQPACKET sockets, whose
messages are atomic. No file of the host is used.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import asdict
from typing import Final

from burnish.core.errors import SandboxError
from burnish.sandbox import bare, host
from burnish.sandbox.inside.entry import Order
from burnish.sandbox.inside.serve import OPEN_SLOT, READY
from burnish.sandbox.slot import Slot, SlotDied, ZygoteDied, has_hung_up, order_of, receive_fd
from burnish.sandbox.streams import Cancel
from burnish.sandbox.types import Job, Outcome

__all__ = ["SlotDied", "Zygote", "ZygoteDied"]

START_S: Final = 120.0
HANG_UP_S: Final = 1.0
LOOK_EVERY_S: Final = 0.5


class Zygote:
    """A running fork server for one tuple of preloaded modules, with up to `num_slots` jobs at once."""

    def __init__(self, preload: tuple[str, ...], num_slots: int = 1) -> None:
        self._preload = preload
        self._num_slots = num_slots
        self._idle: list[Slot] = []
        self._slots: list[Slot] = []
        self._last_order: Order | None = None
        self._changed = threading.Condition()
        self._opener: threading.Thread | None = None
        self._is_stopped = False
        self._ending = threading.RLock()
        self._errors_fd = os.memfd_create("zygote-stderr")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control = ours
        with theirs:
            self._process = subprocess.Popen(
                _command(theirs.fileno(), preload),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors_fd,
                pass_fds=[theirs.fileno()],
                env={},
                cwd="/",
                start_new_session=True,
            )

    def wait_until_ready(self, cancel: Cancel) -> None:
        """Wait for its first word; `SandboxError` with its last one if it fails."""
        ready, _, _ = select.select([self._control, cancel], [], [], START_S)
        word = self._control.recv(64) if self._control in ready else b""
        if word == READY:
            self._opener = threading.Thread(target=self._open_slots, name="sandbox-slots", daemon=True)
            self._opener.start()
            return
        self.stop(hang_up_s=0.0)
        if cancel in ready:
            raise SandboxError("sandbox: cancelled while the fork server started")
        raise SandboxError(
            f"sandbox: the fork server with preload {self._preload!r} did not start: {self._last_words()}; "
            f"if the system forbids it: {host.how_to_get_it()}"
        )

    @property
    def pid(self) -> int:
        """The process that holds the server's namespaces open."""
        return self._process.pid

    def is_alive(self) -> bool:
        """Whether it can take jobs, for which who opens its slots must live: no slot would be replaced."""
        return not has_hung_up(self._control) and (self._opener is None or self._opener.is_alive())

    def run(self, job: Job, cancel: Cancel) -> Outcome:
        """Run one job, blocking; `ZygoteDied` if the server died and not the job."""
        order = order_of(job)
        slot = self._take(order)
        try:
            outcome = slot.run(job, order, cancel, self._last_words, self.is_alive)
        finally:
            self._give_back(slot, order)
        return outcome

    def stop(self, hang_up_s: float = HANG_UP_S) -> None:
        """End the server and all of its jobs; safe to call twice, from any thread."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)
        with self._ending:  # one thread at a time: what is reaped may no longer be killed by number
            try:
                self._process.wait(hang_up_s)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()

    def close(self) -> None:
        """Stop and let go of what the last jobs still needed."""
        self.stop()
        with self._ending:
            if self._opener is not None:
                self._opener.join()
            for slot in self._slots:
                slot.close()
            self._slots.clear()
            self._idle.clear()
            self._control.close()
            if self._errors_fd >= 0:
                os.close(self._errors_fd)
                self._errors_fd = -1

    def _take(self, order: Order) -> Slot:
        """Wait for an idle slot, at best one whose cell has these limits; the longest idle is the readiest."""
        with self._changed:
            while not self._idle:
                has_opener = self._opener is not None and self._opener.is_alive()
                if self._is_stopped or not has_opener or not self.is_alive():
                    raise ZygoteDied
                self._changed.wait(LOOK_EVERY_S)
            slot = next((slot for slot in self._idle if slot.fits(order)), None)
            slot = slot or next((slot for slot in self._idle if not slot.has_cell()), self._idle[0])
            self._idle.remove(slot)
            return slot

    def _give_back(self, slot: Slot, next_order: Order) -> None:
        """Order cells ahead for jobs like the last one; a slot that was closed, or has died, is replaced."""
        with self._changed:
            self._last_order = next_order
            if not slot.is_alive():
                self._slots.remove(slot)
                slot.close()
            else:
                self._idle.append(slot)
            for idle in self._idle:
                if not idle.has_cell() and not self._is_stopped:
                    with suppress(ZygoteDied):
                        idle.prepare(next_order._replace(uid=host.next_job_uid()))
            self._changed.notify_all()

    def _open_slots(self) -> None:
        """Keep the number of slots; the work of a thread, since a control group may take its time."""
        with suppress(ZygoteDied, OSError):
            while True:
                slot = self._open_slot()
                with self._changed:
                    self._slots.append(slot)
                    self._idle.append(slot)
                    if self._last_order is not None:
                        slot.prepare(self._last_order._replace(uid=host.next_job_uid()))
                    self._changed.notify_all()
                    self._changed.wait_for(lambda: self._is_stopped or len(self._slots) < self._num_slots)
                    if self._is_stopped:
                        return

    def _open_slot(self) -> Slot:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                socket.send_fds(self._control, [OPEN_SLOT], [theirs.fileno()])
            pidfd = receive_fd(ours)
        except (OSError, ZygoteDied):
            ours.close()
            raise
        ours.settimeout(None)
        slot = Slot(ours, pidfd, host.make_group())
        slot.enter_group(_pid_of(pidfd))
        return slot

    def _last_words(self) -> str:
        size = os.fstat(self._errors_fd).st_size
        lines = os.pread(self._errors_fd, 1 << 14, max(0, size - (1 << 14))).decode(errors="replace").splitlines()
        return lines[-1] if lines else "it said nothing"


def _command(control_fd: int, preload: tuple[str, ...]) -> list[str]:
    plan = json.dumps(asdict(host.plan(control_fd, preload)))
    return [sys.executable, "-I", "-S", "-c", bare.start("launch"), plan]


def _pid_of(pidfd: int) -> int:
    with open(f"/proc/self/fdinfo/{pidfd}") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pid:"))
