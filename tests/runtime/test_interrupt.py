"""Ctrl-C ends a process that is deep in one long operation, and lets one that can stop do so itself."""

import signal
import subprocess
import sys

DEEP = """
import hashlib, threading
from burnish.runtime.interrupt import prompt_interrupt
with prompt_interrupt(message="go on with --resume", grace_s=0.1):
    threading.Timer(0.3, print, ["ready"], {"flush": True}).start()
    hashlib.pbkdf2_hmac("sha256", b"x", b"y", 2_000_000_000)  # minutes without a bytecode
"""
WILLING = """
import time
from burnish.runtime.interrupt import prompt_interrupt
try:
    with prompt_interrupt(message="go on with --resume", grace_s=30):
        print("ready", flush=True)
        time.sleep(60)
except KeyboardInterrupt:
    print("stopped in good order", flush=True)
"""
OTHER = """
import signal, time
from burnish.runtime.interrupt import prompt_interrupt
signal.signal(signal.SIGUSR1, lambda *_: print("noted", flush=True))
with prompt_interrupt(message="", grace_s=0.1):
    print("ready", flush=True)
    time.sleep(1)
print("ended", flush=True)
"""


def signalled(program: str, number: signal.Signals) -> tuple[int, str, str]:
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    output, errors = process.communicate(timeout=30)
    return process.returncode, output, errors


def test_one_long_operation_is_abandoned() -> None:
    assert signalled(DEEP, signal.SIGINT) == (130, "", "go on with --resume\n")


def test_a_block_that_stops_by_itself_is_left_alone() -> None:
    assert signalled(WILLING, signal.SIGINT) == (0, "stopped in good order\n", "")


def test_other_signals_are_none_of_its_business() -> None:
    assert signalled(OTHER, signal.SIGUSR1) == (0, "noted\nended\n", "")


LEAVE = """
import atexit, sys
from burnish.runtime.interrupt import leave_now
atexit.register(print, "taken apart")
print("said")
leave_now(7)
"""


def test_leaving_now_writes_what_was_said_and_takes_nothing_apart():
    done = subprocess.run([sys.executable, "-c", LEAVE], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (7, "said\n")
