"""A temporary folder goes with its owner, or with the next owner of one."""

import shutil
from pathlib import Path

from burnish.core.scratch import Scratch, sweep
from tests.core.interrupted import was_killed


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_a_folder_in_use_is_left_alone_and_is_removed_when_it_is_closed(tmp_path: Path) -> None:
    (tmp_path / "w-of-somebody-else").mkdir()
    one, two = Scratch("w-", tmp_path), Scratch("w-", tmp_path)
    (one.path / "weights").touch()
    sweep(tmp_path, "w-")
    assert one.path != two.path
    assert (one.path / "weights").exists()
    for scratch in (one, two, two):
        scratch.close()
    assert names(tmp_path) == ["w-of-somebody-else"]


def test_what_a_killed_owner_had_filled_is_removed_by_the_next_one(tmp_path: Path) -> None:
    def fill() -> None:
        folder = Scratch("w-", tmp_path).path
        for name in ("a", "b"):
            (folder / name).write_text("weights")

    num_events = num_left = 0
    while was_killed(fill, before_event=num_events):
        num_left += any((folder / "a").exists() for folder in tmp_path.iterdir())
        Scratch("w-", tmp_path).close()
        for folder in tmp_path.iterdir():  # a kill before the lock had its name, as the module's docstring says
            assert names(folder) in ([], [".in-use.new"])
            shutil.rmtree(folder)
        num_events += 1
    assert num_left
