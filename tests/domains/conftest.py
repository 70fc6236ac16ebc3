"""A box for the domains' tests: a plain process, no isolation, with the protocol of the real one."""

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

import pytest

from burnish.sandbox import Job, Outcome


class PlainBox:
    """Runs a job as a child process; enough to test what a domain makes of an outcome."""

    isolation = "none"

    async def run(self, job: Job) -> Outcome:
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as answers:
            Path(folder, "main.py").write_text(job.source, encoding="utf-8")
            child = await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                "main.py",
                cwd=folder,
                env={"BURNISH_ANSWER_FD": str(answers.fileno())},
                pass_fds=(answers.fileno(),),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            ending = "exited"
            try:
                stdout, stderr = await asyncio.wait_for(child.communicate(job.stdin), job.limits.wall_s)
            except TimeoutError:
                child.kill()
                stdout, stderr, ending = b"", b"", "timed_out"
                await child.wait()
            if ending == "exited" and (child.returncode or 0) < 0:
                ending = "killed"
            os.lseek(answers.fileno(), 0, os.SEEK_SET)
            return Outcome(
                ending=ending,
                exit_code=child.returncode if ending == "exited" else None,
                stdout=stdout,
                stderr=stderr,
                answer=answers.read(),
                wall_s=time.monotonic() - started,
            )

    async def stop(self) -> None:
        """Nothing outlives a job."""


@pytest.fixture
def box() -> PlainBox:
    return PlainBox()
