"""Faults of the outside world become one message and an exit code; bugs keep their traceback."""

import errno
import os
import signal
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import typer

from burnish.commands.manners import polite
from burnish.commands.run import resume_command
from burnish.core.errors import ConfigError, InvariantError, RunFolderError

MAIN = "from burnish.cli import main; main()"


def outcome(error, capsys):
    @polite
    def command() -> None:
        raise error

    with pytest.raises(typer.Exit) as left:
        command()
    return left.value.exit_code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConfigError("no such thing"), (2, "burnish: no such thing\n")),
        (RunFolderError("in use"), (2, "burnish: in use\n")),
        (InvariantError("the ratio is 1.5"), (3, "burnish: the ratio is 1.5\n")),
        (KeyboardInterrupt(), (130, "stopped\n")),
    ],
)
def test_an_error_is_its_message_and_its_exit_code(error, expected, capsys):
    assert outcome(error, capsys) == expected


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.ENOTDIR, errno.ENAMETOOLONG])
def test_a_fault_of_the_disk_names_the_path_and_the_way_out(number, capsys):
    exit_code, message = outcome(OSError(number, os.strerror(number), "/runs/x"), capsys)
    assert exit_code == 2
    assert message.startswith(f"burnish: {os.strerror(number)} at '/runs/x'; ")
    assert "--runs" in message


@pytest.mark.parametrize("error", [ValueError("a bug"), ConnectionResetError(errno.ECONNRESET, "reset")])
def test_a_bug_keeps_its_traceback(error):
    @polite
    def command() -> None:
        raise error

    with pytest.raises(type(error)):
        command()


def test_ctrl_c_stops_a_command_with_exit_code_130(tmp_path, start):
    os.mkfifo(tmp_path / "reply")
    process = start(MAIN, "verify", "documents", "documents/eval/1/0", "--reply", "reply")
    with open_when_read(tmp_path / "reply", process):
        for _ in range(30):  # a signal just before the read begins is seen when the read ends: one presses again
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(1)
                break
        _, stderr = process.communicate(timeout=30)
    assert (process.returncode, stderr) == (130, "stopped\n")


@contextmanager
def open_when_read(pipe, process):
    """Open a pipe for writing as soon as the process reads it; fail if the process ends before."""
    while process.poll() is None:
        try:
            descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # ENXIO: nobody reads yet
            time.sleep(0.01)
            continue
        with open(descriptor, "wb"):
            yield
        return
    pytest.fail(f"ended too early: {process.communicate()}")


def test_a_stopped_run_says_how_to_go_on():
    words = resume_command(Path("my recipe.toml"), ["seed=2"], Path("elsewhere"))
    assert words == "burnish run 'my recipe.toml' --set seed=2 --runs elsewhere --resume"
    assert resume_command(Path("r.toml"), [], Path("runs")) == "burnish run r.toml --resume"


STOP_IN_TORCH = """
import os, signal, sys, threading, time
from burnish.cli import main
def stop():
    while "torch" not in sys.modules:
        time.sleep(0.005)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=stop, daemon=True).start()
main()
"""


def test_ctrl_c_while_torch_is_imported_says_how_to_go_on(recipe, start):
    process = start(STOP_IN_TORCH, "run", recipe, "--set", "seed=7")
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert stderr == f"stopped; resume with: burnish run {recipe} --set seed=7 --resume\n"
