"""Run the command line as a person does: another process, its exit code and what it printed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
COMMAND = (sys.executable, "-c", "from burnish.cli import main; main()")
RECIPE = """
name = "little"
model = { name = "tiny" }
[[tasks]]
domain = "documents"
[[stages]]
use = "sft"
"""


@pytest.fixture
def environment(tmp_path):
    """Modules in the test's folder can be imported, and no width or colour comes from outside."""
    path = f"{ROOT}{os.pathsep}{tmp_path}"
    return os.environ | {"PYTHONPATH": path, "NO_COLOR": "1", "COLUMNS": "120", "HF_HUB_OFFLINE": "1"}


@pytest.fixture
def burnish(tmp_path, environment):
    """Run `burnish ARGUMENTS` in an empty folder, to its end."""

    def run(*arguments, stdin="", command=COMMAND):
        words = [*command, *map(str, arguments)]
        return subprocess.run(
            words, cwd=tmp_path, env=environment, input=stdin, capture_output=True, text=True, timeout=60, check=False
        )

    return run


@pytest.fixture
def refusal(burnish):
    """Run a command that must refuse politely (exit code 2, one message, no traceback); return the message."""

    def run(*arguments):
        result = burnish(*arguments)
        assert (result.returncode, result.stdout) == (2, ""), result.stderr
        assert "Traceback" not in result.stderr
        return result.stderr

    return run


@pytest.fixture
def recipe(tmp_path):
    """A recipe that is right, for tests to spoil."""
    path = tmp_path / "r.toml"
    path.write_text(RECIPE)
    return path
