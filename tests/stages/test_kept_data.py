"""A stage that goes on after a kill goes on with the data that it began with."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from rich.console import Console

from burnish.core.errors import ConfigError
from burnish.stages.kept_data import keep_or_compare
from burnish.stages.preference_data import PairLine, open_split
from burnish.stages.session import Session

LINE = '{{"prompt": "{0}", "chosen": "a", "rejected": "b"}}\n'


def session(folder: Path) -> Session:
    """What is read of one."""
    parts = {"folder": SimpleNamespace(path=folder), "stage_name": "0-preference", "held_out_prompts": frozenset}
    return cast(Session, SimpleNamespace(console=Console(quiet=True), **parts))


def test_what_a_checkpoint_has_learned_from_must_be_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "some.jsonl"
    for text in ("one", "two"):  # nothing has been learned yet
        file.write_text(text)
        keep_or_compare(session(tmp_path), {"some": file})
    (tmp_path / "checkpoints" / "0-preference-step-4").mkdir(parents=True)
    keep_or_compare(session(tmp_path), {"some": file})
    file.write_text("one")
    with pytest.raises(ConfigError, match=r"0-preference: the data are others than when this stage began: some;"):
        keep_or_compare(session(tmp_path), {"some": file})


def test_both_files_of_preferences_are_held_to_that(tmp_path: Path) -> None:
    data, held_out = (tmp_path / name / "d.jsonl" for name in ("train", "eval"))
    for file, prompt in ((data, "x"), (held_out, "y")):
        file.parent.mkdir()
        file.write_text(LINE.format(prompt))
    open_split(session(tmp_path), str(data), str(held_out), PairLine)
    (tmp_path / "checkpoints" / "0-preference-step-4").mkdir(parents=True)
    open_split(session(tmp_path), str(data), str(held_out), PairLine)
    held_out.write_text(LINE.format("z"))
    with pytest.raises(ConfigError, match=r"began: .*eval/d\.jsonl;"):
        open_split(session(tmp_path), str(data), str(held_out), PairLine)
