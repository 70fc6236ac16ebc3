"""The page on mixing domains is true: its files are written and its commands run."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from burnish.cli import app
from burnish.core import metrics
from burnish.core.config import Strict
from burnish.rewards import normalisers
from burnish.stages.rl_domains import DomainOptions

TEXT = (Path(__file__).parents[2] / "docs" / "mixing_domains.md").read_text(encoding="utf-8")
BLOCKS = re.compile(r"^<!-- (file|run):? ?(.*?) ?-->\n```\w*\n(.*?)^```$", re.DOTALL | re.MULTILINE).findall(TEXT)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the page's files, as the reader has it."""
    for kind, name, text in BLOCKS:
        if kind == "file":
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_the_commands_of_the_page_work_and_the_run_says_what_the_page_promises(folder: Path) -> None:
    assert len(BLOCKS) == TEXT.count("\n```") / 2 == 3
    (commands,) = [text for kind, _, text in BLOCKS if kind == "run"]
    for line in commands.strip().split("\n"):
        command, *arguments = shlex.split(line)
        result = CliRunner().invoke(app, arguments)
        assert command == "burnish"
        assert result.exit_code == 0, result.output
    rows = [row.values for row in metrics.read(folder / "runs" / "mixing" / "metrics.jsonl") if row.stage == "1-rl"]
    assert len(rows) == 2
    names = {name for row in rows for name in row}
    wanted = {"reward/careful darts/part/is_number", "reward/careful darts/solved", "normaliser/house.darts:pub/std"}
    assert wanted <= names


def options_of(model: type[Strict]) -> set[str]:
    return set(model.model_fields)


def test_the_page_has_every_option_and_every_normaliser() -> None:
    rows = re.findall(r"^\| (`[^|]*?) \|", TEXT, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named == options_of(DomainOptions) | set(normalisers.Kind.__args__)
