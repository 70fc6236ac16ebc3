"""Faults of the outside world become one message and an exit code; bugs keep their traceback."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from burnish.commands.manners import polite
from burnish.core.errors import ConfigError, InvariantError, RunFolderError

COMMAND = (sys.executable, "-c", "from burnish.cli import main; main()")


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


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.ENOTDIR])
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


def test_ctrl_c_stops_a_command_with_exit_code_130(tmp_path, environment):
    os.mkfifo(tmp_path / "reply")
    words = [*COMMAND, "verify", "documents", "documents/eval/1/0", "--reply", str(tmp_path / "reply")]
    process = subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True)
    with (tmp_path / "reply").open("w"):  # opens once the command reads
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=30)
    assert (process.returncode, stderr) == (130, "stopped\n")


def test_a_stopped_run_says_how_to_go_on():
    from burnish.commands.run import resume_command

    words = resume_command(Path("my recipe.toml"), ["seed=2"], Path("elsewhere"))
    assert words == "burnish run 'my recipe.toml' --set seed=2 --runs elsewhere --resume"
    assert resume_command(Path("r.toml"), [], Path("runs")) == "burnish run r.toml --resume"
