"""The pages on scheduling and the simulator are true: their program and their commands run."""

import contextlib
import io
import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from burnish.cli import app

ROOT = Path(__file__).parents[2]


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.DOTALL)


def test_the_program_of_the_page_drives_a_scheduler():
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(blocks("scheduling.md", "python")[0], {})
    assert printed.getvalue() == "0 [('0/0', (0, 1))]\n"


@pytest.mark.parametrize("command", blocks("simulator.md", "bash")[0].splitlines())
def test_a_command_of_the_page_prints_its_table(command, monkeypatch):
    monkeypatch.chdir(ROOT)
    result = CliRunner().invoke(app, shlex.split(command)[1:])
    assert result.exit_code == 0, result.output
    assert "no scheduler can be done before" in result.output
    assert ("best split" in result.output) == ("--splits" in command)


def test_json_has_every_number(monkeypatch):
    monkeypatch.chdir(ROOT)
    words = ["plan", "simulate", "recipes/cluster_small.toml", "--json", "--set", "scheduler.num_batches=2"]
    printed = json.loads(CliRunner().invoke(app, words).output)
    assert printed["as given"]["num_batches"] == 2
    assert 0 < printed["as given"]["efficiency"] <= 1


def test_a_wrong_key_is_named(tmp_path):
    file = tmp_path / "cluster.toml"
    file.write_text((ROOT / "recipes/cluster_small.toml").read_text().replace("num_sandboxes", "num_sandboxs"))
    result = CliRunner().invoke(app, ["plan", "simulate", str(file)])
    assert result.exit_code == 2
    assert "did you mean 'num_sandboxes'" in result.output


@pytest.mark.parametrize("text", [None, "{", "[]"])
def test_json_that_is_no_cluster_is_refused(text, tmp_path):
    file = tmp_path / "cluster.json"
    if text is not None:
        file.write_text(text)
    result = CliRunner().invoke(app, ["plan", "simulate", str(file)])
    assert result.exit_code == 2, result.output
    assert "give what `burnish plan fit` printed" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("pass_rates", "[]"),
        ("pass_rates", "[2.0]"),
        ("verify_s", "{ values = [-1.0] }"),
        ("verify_s", "{ median = 1.0, sigma = 1000.0 }"),
    ],
)
def test_a_domain_that_cannot_be_drawn_from_is_refused(key, value, monkeypatch):
    monkeypatch.chdir(ROOT)
    words = ["plan", "simulate", "recipes/cluster_small.toml", "--set", f"domains.0.{key}={value}"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2, result.output
    assert key in result.output
