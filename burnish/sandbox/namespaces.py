"""The box that isolates: fork servers, one for each tuple of preloaded modules, started when first wanted.

A server that dies is replaced and the job that it took with it runs once more; a second death in a row
is a `SandboxError`. But a job under which its slot dies twice, while the server lives, was `killed`: it brought that
about, and would else decide itself that it is not judged. Jobs run in `num_workers` threads, which only wait and read.
"""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from burnish.core.errors import SandboxError
from burnish.sandbox.streams import Cancel
from burnish.sandbox.threads import run_in_thread
from burnish.sandbox.types import Isolation, Job, Outcome, check_file_names
from burnish.sandbox.zygote import SlotDied, Zygote, ZygoteDied

NUM_ATTEMPTS = 2
NUM_SPARE_SLOTS = 1  # so that a next cell is made while a job runs


class NamespaceBox:
    """Runs each job in namespaces of its own."""

    isolation: Isolation = "namespaces"

    def __init__(self, num_workers: int) -> None:
        self._num_workers = num_workers
        self._threads = ThreadPoolExecutor(num_workers, thread_name_prefix="sandbox")
        self._lock = threading.Lock()
        self._zygotes: dict[tuple[str, ...], Zygote] = {}
        self._retired: list[Zygote] = []
        self._stopped = False

    async def run(self, job: Job) -> Outcome:
        """Run one job; cancelling the wait kills it first."""
        check_file_names(job)
        return await run_in_thread(self._threads, lambda cancel: self._run(job, cancel))

    async def stop(self) -> None:
        """Kill every server and job, and wait until they are gone."""
        await asyncio.to_thread(self._stop)

    def server_pids(self) -> list[int]:
        """The processes of this box's fork servers; each holds its jobs' lives."""
        return [zygote.pid for zygote in list(self._zygotes.values())]

    def _run(self, job: Job, cancel: Cancel) -> Outcome:
        started, num_slots_died = time.monotonic(), 0
        for _ in range(NUM_ATTEMPTS):
            zygote = self._zygote(job.preload, cancel)
            try:
                return zygote.run(job, cancel)
            except SlotDied:
                num_slots_died += 1
            except ZygoteDied:
                continue
        if num_slots_died == NUM_ATTEMPTS:
            return _killed(time.monotonic() - started)
        if self._stopped:
            raise SandboxError("sandbox: the box was stopped while a job ran")
        raise SandboxError(f"sandbox: the fork server with preload {job.preload!r} died {NUM_ATTEMPTS} times in a row")

    def _zygote(self, preload: tuple[str, ...], cancel: Cancel) -> Zygote:
        with self._lock:
            if self._stopped:
                raise SandboxError("sandbox: this box was stopped; open another with open_box()")
            zygote = self._zygotes.get(preload)
            if zygote is None or not zygote.is_alive():
                if zygote is not None:
                    zygote.stop()
                    self._retired.append(zygote)
                zygote = self._zygotes[preload] = Zygote(preload, self._num_workers + NUM_SPARE_SLOTS)
                try:
                    zygote.wait_until_ready(cancel)
                except BaseException:
                    del self._zygotes[preload]
                    zygote.close()
                    raise
            return zygote

    def _stop(self) -> None:
        self._stopped = True
        for zygote in list(self._zygotes.values()):
            zygote.stop()  # also one that is starting, whose starter holds the lock
        with self._lock:
            for zygote in self._zygotes.values():
                zygote.stop()
        self._threads.shutdown(wait=True)
        for zygote in (*self._zygotes.values(), *self._retired):
            zygote.close()
        self._zygotes.clear()
        self._retired.clear()


def _killed(wall_s: float) -> Outcome:
    return Outcome(ending="killed", exit_code=None, stdout=b"", stderr=b"", answer=b"", wall_s=wall_s)
