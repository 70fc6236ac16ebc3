"""The programs of the page on dependency layers run as they stand."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from burnish.sandbox import missing

ROOT = Path(__file__).parents[2]
PROGRAMS = re.findall(
    r"^```python\n(.*?)^```$", (ROOT / "docs/dependency_layers.md").read_text(), re.DOTALL | re.MULTILINE
)


@pytest.fixture
def folder(tmp_path) -> Path:
    """What the programs expect to find where they run."""
    if lacks := missing():
        pytest.skip(f"this host cannot isolate: {'; '.join(lacks)}")
    (tmp_path / "wheels").mkdir()
    (tmp_path / "context").mkdir()
    (tmp_path / "context/greet.py").write_text("import os; print(os.environ['GREETING'])\n")
    info = "tinypack-1.0.dist-info"
    with zipfile.ZipFile(tmp_path / "wheels/tinypack-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tinypack/__init__.py", "VALUE = 41\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tinypack\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return tmp_path


@pytest.mark.parametrize(("number", "printed"), [(0, "41\n"), (1, "hello world\n")])
def test_a_program_of_the_page_runs(folder, number, printed):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAMS[number]],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "BURNISH_CACHE": str(folder / "cache"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.stdout == printed, done.stderr
    assert len(PROGRAMS) == 2
