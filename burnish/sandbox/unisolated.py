"""Isolation `none`: a plain child process, for code that you trust. Never a fall-back.

Covered: deadline, output cap, CPU time, address space and file size per process, a clean environment, a
temporary folder that goes, the process group killed at the end. Not covered: everything else. The
program can read your files, use your network, and leave a daemon in another session; `num_processes`,
`num_files` and the total of `disk_mb` are not enforced; `preload` is not needed and not used.
"""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

from burnish.core.errors import SandboxError
from burnish.sandbox import bare
from burnish.sandbox.streams import DYING_S, Cancel, Collected, collect
from burnish.sandbox.threads import run_in_thread
from burnish.sandbox.types import Isolation, Job, Outcome, check_file_names


class PlainBox:
    """Runs each job as an ordinary process of the user."""

    isolation: Isolation = "none"

    def __init__(self, num_workers: int) -> None:
        self._threads = ThreadPoolExecutor(num_workers, thread_name_prefix="unisolated")
        self._running: set[Cancel] = set()

    async def run(self, job: Job) -> Outcome:
        """Run one job; cancelling the wait kills it first."""
        check_file_names(job)
        return await run_in_thread(self._threads, lambda cancel: self._run(job, cancel))

    async def stop(self) -> None:
        """Kill what runs, and wait until it is gone."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for cancel in list(self._running):
            cancel.ask()
        await asyncio.to_thread(self._threads.shutdown)

    def _run(self, job: Job, cancel: Cancel) -> Outcome:
        self._running.add(cancel)
        try:
            with tempfile.TemporaryDirectory(prefix="burnish-job-") as folder, ExitStack() as stack:
                return _run_in(Path(folder), job, cancel, stack)
        finally:
            self._running.discard(cancel)


def _run_in(folder: Path, job: Job, cancel: Cancel, stack: ExitStack) -> Outcome:
    started = time.monotonic()
    _write_files(folder, job)
    pipes = {name: os.pipe() for name in ("stdout", "stderr", "answer")}
    for read_end, _ in pipes.values():
        stack.callback(os.close, read_end)
    try:
        process = _start(folder, job, {name: write_end for name, (_, write_end) in pipes.items()})
    finally:
        for _, write_end in pipes.values():
            os.close(write_end)
    ended, ending = os.pipe()
    stack.callback(os.close, ended)
    threading.Thread(target=_say_when_ended, args=(process, ending), daemon=True).start()
    collected = collect(
        {name: read_end for name, (read_end, _) in pipes.items()},
        ended,
        cancel,
        lambda: _kill_group(process),
        job.limits.wall_s,
        job.limits.output_bytes,
    )
    if not collected.is_gone:
        raise SandboxError(f"sandbox: a job, or what it started, was not gone within {DYING_S:.0f} s of its end")
    return _outcome(process, collected, time.monotonic() - started)


def _write_files(folder: Path, job: Job) -> None:
    (folder / "source").write_text(job.source, encoding="utf-8", errors="surrogatepass")
    (folder / "stdin").write_bytes(job.stdin)
    (folder / "work").mkdir()
    for name, content in job.files.items():
        path = folder / "work" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _start(folder: Path, job: Job, write_ends: dict[str, int]) -> subprocess.Popen[bytes]:
    limits = [str(job.limits.cpu_s), str(job.limits.memory_mb), str(job.limits.disk_mb)]
    with open(folder / "stdin", "rb") as stdin:
        return subprocess.Popen(
            [sys.executable, "-I", "-X", "utf8", "-c", bare.start("plain"), str(folder / "source"), *limits],
            stdin=stdin,
            stdout=write_ends["stdout"],
            stderr=write_ends["stderr"],
            pass_fds=[write_ends["answer"]],
            cwd=folder / "work",
            env={"PATH": os.defpath, "LANG": "C.UTF-8", "BURNISH_ANSWER_FD": str(write_ends["answer"])},
            start_new_session=True,
        )


def _say_when_ended(process: subprocess.Popen[bytes], ending: int) -> None:
    """Turn the end of a process into a readable descriptor, on any system; its group goes with it."""
    process.wait()
    _kill_group(process)
    os.close(ending)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _outcome(process: subprocess.Popen[bytes], collected: Collected, wall_s: float) -> Outcome:
    code = process.wait()
    stopped = None if collected.stopped == "cancelled" else collected.stopped
    by_itself = "exited" if code >= 0 else "timed_out" if code == -signal.SIGXCPU else "killed"
    out_of_memory = by_itself == "exited" and code == 1 and collected.stderr.rstrip().endswith(b"MemoryError")
    return Outcome(
        ending=stopped or ("over_memory" if out_of_memory else by_itself),
        exit_code=None if stopped or code < 0 else code,
        stdout=collected.stdout,
        stderr=collected.stderr,
        answer=collected.answer,
        wall_s=wall_s,
    )
