"""The page on your own tasks is true: its files are written, its commands and programs run."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from burnish.cli import app
from burnish.core.errors import ConfigError
from burnish.domains import open_domain

PAGE = Path(__file__).parents[2] / "docs" / "your_own_tasks.md"
BLOCK = re.compile(r"^<!-- (file|run|fails):? ?(.*?) ?-->\n```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
BLOCKS = BLOCK.findall(PAGE.read_text(encoding="utf-8"))


def blocks(purpose, language=None):
    return [(note, text) for kind, note, tongue, text in BLOCKS if kind == purpose and language in (None, tongue)]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder with the page's files, as the reader has it."""
    for name, text in blocks("file"):
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_block_of_the_page_is_marked_and_so_tested():
    assert len(BLOCKS) == PAGE.read_text(encoding="utf-8").count("\n```") / 2 == 7


@pytest.mark.parametrize("line", [line for _, text in blocks("run", "") for line in text.strip().split("\n")])
def test_a_command_of_the_page_works(line):
    command, *arguments = shlex.split(line)
    result = CliRunner().invoke(app, arguments)
    assert command == "burnish" and result.exit_code == 0, result.output


def test_the_programs_of_the_page_run(capsys):
    for _, text in blocks("run", "python"):
        exec(text, {})
    printed = capsys.readouterr().out
    assert "read '18'" in printed and "gives no single final number" in printed


def test_the_broken_line_gives_the_message_that_is_shown(folder):
    [(message, text)] = blocks("fails")
    (folder / "broken.jsonl").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=re.escape(message)):
        open_domain("jsonl:broken.jsonl", {"verifier": "number"})


def test_the_example_fills_both_splits_and_keeps_sources_together():
    domain = open_domain("jsonl:sums.jsonl", {"verifier": "number", "eval_fraction": 0.25})
    sources = {
        split: {domain.task(split, 1, i).source for i in range(domain.size(split))} for split in ("train", "eval")
    }
    assert domain.size("train") + domain.size("eval") == 5
    assert not (sources["train"] & sources["eval"]) - {""}
