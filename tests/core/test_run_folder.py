from pathlib import Path

import pytest

from burnish.core.errors import ConfigError, RunFolderError
from burnish.core.recipe import Recipe
from burnish.core.run_folder import RunFolder, kept_recipe, whole_folder, write_whole
from tests.core.interrupted import was_killed

RECIPE = Recipe(name="r", tasks=[{"domain": "arithmetic"}], stages=[{"use": "sft"}])  # pyright: ignore[reportArgumentType]


def test_a_run_is_not_started_over_another(tmp_path: Path) -> None:
    RunFolder.open(tmp_path / "r", RECIPE, resume=False).close()
    with pytest.raises(ConfigError, match="--resume"):
        RunFolder.open(tmp_path / "r", RECIPE, resume=False)
    RunFolder.open(tmp_path / "r", RECIPE, resume=True).close()


def test_a_run_is_not_resumed_with_another_recipe(tmp_path: Path) -> None:
    RunFolder.open(tmp_path / "r", RECIPE, resume=False).close()
    with pytest.raises(ConfigError, match="seed differ"):
        RunFolder.open(tmp_path / "r", RECIPE.model_copy(update={"seed": 9}), resume=True)


def test_a_run_that_never_began_leaves_its_name_free(tmp_path: Path) -> None:
    folder = RunFolder.open(tmp_path / "r", RECIPE, resume=False)
    with pytest.raises(ConfigError, match="no such model"), folder.trial():
        raise ConfigError("no such model")
    folder.close()
    RunFolder.open(tmp_path / "r", RECIPE.model_copy(update={"seed": 9}), resume=False).close()


def test_a_run_with_a_checkpoint_keeps_its_recipe(tmp_path: Path) -> None:
    folder = RunFolder.open(tmp_path / "r", RECIPE, resume=False)
    folder.checkpoint("base").mkdir()
    with pytest.raises(ConfigError, match="no such model"), folder.trial():
        raise ConfigError("no such model")
    folder.close()
    with pytest.raises(ConfigError, match="--resume"):
        RunFolder.open(tmp_path / "r", RECIPE, resume=False)


def test_two_processes_do_not_share_a_run(tmp_path: Path) -> None:
    folder = RunFolder.open(tmp_path / "r", RECIPE, resume=False)
    with pytest.raises(RunFolderError, match="in use"):
        RunFolder.open(tmp_path / "r", RECIPE, resume=True)
    folder.close()


def test_a_folder_that_cannot_be_made_gives_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunFolderError, match="cannot write the run folder"):
        RunFolder.open(tmp_path / "file" / "r", RECIPE, resume=False)


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail(temporary: Path) -> None:
        temporary.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_whole(path, fail)
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]
    assert path.read_text() == "old"


def test_a_folder_takes_the_place_of_the_old_one_or_does_not(tmp_path: Path) -> None:
    target = tmp_path / "c"
    for text in ("one", "two"):
        with whole_folder(target) as folder:
            (folder / "f").write_text(text)
    with pytest.raises(RuntimeError), whole_folder(target) as folder:  # noqa: PT012
        (folder / "f").write_text("three")
        raise RuntimeError
    assert (target / "f").read_text() == "two"
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def test_what_a_killed_process_had_half_written_is_swept_away(tmp_path: Path) -> None:
    RunFolder.open(tmp_path / "r", RECIPE, resume=False).close()
    (tmp_path / "r" / "checkpoints" / ".2-rl.x.part").mkdir()
    (tmp_path / "r" / "reports" / ".report.html.7.part").touch()
    RunFolder.open(tmp_path / "r", RECIPE, resume=True).close()
    assert not list(tmp_path.rglob("*.part"))


def test_a_folder_that_is_replaced_is_the_old_or_the_new_one_after_a_kill_at_any_moment(tmp_path: Path) -> None:
    target = tmp_path / "r" / "checkpoints" / "c"

    def write(text: str) -> None:
        with whole_folder(target) as folder:
            for name in ("f", "g"):
                (folder / name).write_text(text)

    def reopen() -> None:
        RunFolder.open(tmp_path / "r", RECIPE, resume=True).close()

    reopen()
    write("one")
    found: set[str] = set()
    num_events = 0
    while was_killed(lambda: write("two"), before_event=num_events):
        if not num_events % 3:
            was_killed(reopen, before_event=num_events)
        reopen()
        text = (target / "f").read_text()
        assert (target / "g").read_text() == text
        assert not list(tmp_path.rglob("*.part"))
        found.add(text)
        write("one")
        num_events += 1
    assert num_events > 12
    assert found == {"one", "two"}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff"])
def test_a_damaged_recipe_is_named(content: bytes, tmp_path: Path) -> None:
    RunFolder.open(tmp_path / "r", RECIPE, resume=False).close()
    assert kept_recipe(tmp_path / "r") == RECIPE
    (tmp_path / "r" / "recipe.resolved.json").write_bytes(content)
    with pytest.raises(RunFolderError, match="damaged"):
        RunFolder.open(tmp_path / "r", RECIPE, resume=True)
    with pytest.raises(RunFolderError, match="damaged"):
        kept_recipe(tmp_path / "r")


def test_the_recipe_is_kept_as_it_was_first_written(tmp_path: Path) -> None:
    written = tmp_path / "recipe.toml"
    folder = RunFolder.open(tmp_path / "r", RECIPE, resume=False)
    for text in ("# why\nname = 'r'\n", "# edited before a resume\n"):
        written.write_text(text)
        folder.keep_source(written)
    folder.close()
    assert (tmp_path / "r" / "recipe.toml").read_text() == "# why\nname = 'r'\n"


def test_a_folder_and_its_files_can_be_read_by_others(tmp_path: Path) -> None:
    with whole_folder(tmp_path / "final") as folder:
        (folder / "weights").touch(mode=0o600)
    assert (tmp_path / "final" / "weights").stat().st_mode & 0o777 == 0o644
