"""Run the command line: in this process where that proves the same, in another where it matters."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from burnish.cli import app

ROOT = Path(__file__).parent.parent.parent
RECIPE = """
name = "little"
model = { name = "tiny" }
[[tasks]]
domain = "documents"
[[stages]]
use = "evaluate"
"""


@pytest.fixture
def burnish(tmp_path, monkeypatch):
    """Run `burnish ARGUMENTS` in an empty folder; the result has exit_code, stdout, stderr and exception."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")

    def run(*arguments, stdin=None):
        return CliRunner().invoke(app, list(map(str, arguments)), input=stdin)

    return run


@pytest.fixture
def refusal(burnish):
    """Run a command that must refuse politely (exit code 2, one message, no traceback); return the message."""

    def run(*arguments):
        result = burnish(*arguments)
        assert isinstance(result.exception, SystemExit), repr(result.exception)
        assert (result.exit_code, result.stdout) == (2, ""), result.output
        return result.stderr

    return run


@pytest.fixture
def start(tmp_path):
    """Start a Python program in another process; it sees this source tree."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}

    def begin(program, *arguments):
        words = [sys.executable, "-c", program, *map(str, arguments)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(words, cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL, **pipes)

    return begin


@pytest.fixture
def recipe(tmp_path):
    """A recipe that is right, for tests to spoil."""
    path = tmp_path / "r.toml"
    path.write_text(RECIPE)
    return path
