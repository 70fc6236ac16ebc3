"""Isolation `none`: it runs, bounds what it can, and has to be asked for by name."""

import asyncio

import pytest

from burnish.sandbox import Job, Outcome, ResourceLimits, open_box

LIMITS = {"wall_s": 20.0, "output_bytes": 10_000}


def run(source: str, **limits: float) -> Outcome:
    async def once() -> Outcome:
        async with open_box("none") as box:
            job = Job(source=source, files={"a.txt": b"a"}, stdin=b"in", limits=ResourceLimits(**(LIMITS | limits)))
            return await box.run(job)

    return asyncio.run(once())


def test_files_input_and_answer_pass_through():
    source = (
        "import os, sys; os.write(int(os.environ['BURNISH_ANSWER_FD']), open('a.txt', 'rb').read()); print(input())"
    )
    outcome = run(source)
    assert (outcome.ending, outcome.exit_code, outcome.stdout, outcome.answer) == ("exited", 0, b"in\n", b"a")


ENDINGS = {
    "exit code": ("import sys; sys.exit(3)", {}, "exited"),
    "deadline": ("import time; time.sleep(60)", {"wall_s": 1.0}, "timed_out"),
    "output": ("while True: print('x' * 1000)", {}, "over_output"),
    "signal": ("import os; os.kill(os.getpid(), 9)", {}, "killed"),
    "memory": ("x = bytearray(1 << 30)", {}, "over_memory"),
    "a child that holds stdout": ("import os, time; os.fork() or time.sleep(60)", {}, "exited"),
}


@pytest.mark.parametrize(("source", "limits", "ending"), ENDINGS.values(), ids=ENDINGS)
def test_a_job_ends_as_it_should(source, limits, ending):
    assert run(source, **limits).ending == ending


def test_the_hosts_environment_is_not_passed_on(monkeypatch):
    monkeypatch.setenv("BURNISH_TEST_SECRET", "swordfish")
    assert b"swordfish" not in run("import os; print(dict(os.environ))").stdout
