"""The page on histories and interactions is true: its recipe runs, and it names every option."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from burnish.cli import app
from burnish.core import metrics
from burnish.rollout.aim import AimConfig
from burnish.stages.rl_history_config import ReplayConfig

TEXT = (Path(__file__).parents[2] / "docs" / "offline_and_online.md").read_text(encoding="utf-8")
BLOCKS = re.compile(r"^<!-- (file|run):? ?(.*?) ?-->\n```\w*\n(.*?)^```$", re.DOTALL | re.MULTILINE).findall(TEXT)


@pytest.mark.timeout(300)
def test_the_recipe_of_the_page_runs_and_ends_as_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ((_, name, recipe), (_, _, commands)) = BLOCKS
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(recipe, encoding="utf-8")
    said = ""
    for line in commands.strip().split("\n"):
        command, *arguments = shlex.split(line)
        result = CliRunner().invoke(app, arguments)
        assert command == "burnish" and result.exit_code == 0, result.output
        said += result.output
    rows = [row.values for row in metrics.read(tmp_path / "runs" / "mixed" / "metrics.jsonl") if row.stage == "3-rl"]
    assert rows[-1]["interactions_spent"] == 200
    (promised,) = [line.strip() for line in TEXT.split("\n") if line.startswith("    3-rl: ")]
    kept = re.sub(r"after \d+ steps", "after N steps", promised)
    assert kept in re.sub(r"after \d+ steps", "after N steps", " ".join(said.split()))
    assert {name for row in rows for name in row} >= {"aim/split", "aim/known", "replay/importance", "interactions"}


def test_the_page_has_every_option_of_aim_and_replay() -> None:
    options = {*AimConfig.model_fields, *ReplayConfig.model_fields}
    assert {option for option in options if f"`{option}`" not in TEXT and f"{option} " not in TEXT} == set()
