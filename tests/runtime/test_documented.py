"""What docs/runtime.md shows is true."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from burnish.core.recipe import EngineConfig, RuntimeConfig
from burnish.runtime.opening import check_runtime

PAGE = (Path(__file__).parents[2] / "docs/runtime.md").read_text()


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return found


def test_the_program_prints_what_the_page_says() -> None:
    done = subprocess.run([sys.executable, "-c", block("python")], capture_output=True, text=True, check=True)
    assert done.stdout == "1024\n"


def test_the_table_is_taken() -> None:
    check_runtime(RuntimeConfig.model_validate(tomllib.loads(block("toml"))["runtime"]), EngineConfig())
