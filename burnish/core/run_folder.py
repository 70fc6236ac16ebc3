"""A run's folder: its paths, its lock, and files that are either whole or absent."""

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Self, cast

from burnish.core.config import validate
from burnish.core.errors import ConfigError, RunFolderError
from burnish.core.recipe import Recipe

_RESOLVED = "recipe.resolved.json"
PART = ".part"
"""How the names of files and folders end that are not whole yet; opening a run folder sweeps them out."""
_OLD = f".old{PART}"
"""How the name of a whole folder ends for as long as another takes its place."""


class RunFolder:
    """`runs/NAME`, locked while this process uses it."""

    def __init__(self, path: Path, lock: IO[str]) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def open(cls, path: Path, recipe: Recipe, *, resume: bool) -> Self:
        """Make or reopen the folder; a `ConfigError` if that would mix two runs."""
        if not resume and (path / _RESOLVED).exists():
            raise ConfigError(
                f"run folder {str(path)!r} exists; go on with it by --resume, or choose another name by --set name=NAME"
            )
        try:
            for name in ("", "checkpoints", "trajectories", "reports"):
                (path / name).mkdir(parents=True, exist_ok=True)
            lock = (path / "lock").open("w")
        except OSError as error:
            raise RunFolderError(
                f"cannot write the run folder {str(path)!r}: {error.strerror}; choose another by --runs DIR"
            ) from None
        try:
            _lock(lock, path)
            _keep_recipe(path / _RESOLVED, recipe)
            _sweep(path)
        except (ConfigError, RunFolderError):
            lock.close()
            raise
        return cls(path, lock)

    def keep_source(self, recipe_file: Path) -> None:
        """Keep the recipe as it was written, comments and all, beside what it came to with `--set`."""
        copy = self.path / "recipe.toml"
        if not copy.exists():
            write_whole(copy, lambda temporary: temporary.write_bytes(recipe_file.read_bytes()))

    def checkpoint(self, name: str) -> Path:
        """Where the checkpoint of that name is or will be."""
        return self.path / "checkpoints" / name

    @contextmanager
    def trial(self) -> Iterator[None]:
        """If the block fails before the run's first checkpoint, let go of the recipe: the next may be another."""
        try:
            yield
        except BaseException:
            if not any((self.path / "checkpoints").iterdir()):
                (self.path / _RESOLVED).unlink(missing_ok=True)
            raise

    def close(self) -> None:
        """Let others use the folder."""
        self._lock.close()


def _lock(lock: IO[str], path: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise RunFolderError(f"run folder {str(path)!r} is in use by another process; wait for it or stop it") from None


def _keep_recipe(resolved: Path, recipe: Recipe) -> None:
    new = recipe.model_dump(mode="json")
    if not resolved.exists():
        write_whole(resolved, lambda temporary: temporary.write_text(json.dumps(new, indent=2), encoding="utf-8"))
        return
    old = _read_kept(resolved)
    differing = sorted(key for key in new.keys() | old.keys() if new.get(key) != old.get(key))
    if differing:
        raise ConfigError(
            f"the run in {str(resolved.parent)!r} was started with another recipe: {', '.join(differing)} differ; "
            "resume with the old one, or choose another name by --set name=NAME"
        )


def kept_recipe(run: Path) -> Recipe:
    """The recipe that a run folder was made for."""
    resolved = run / _RESOLVED
    return validate(Recipe, _read_kept(resolved), str(resolved))


def _read_kept(resolved: Path) -> dict[str, Any]:
    try:
        kept = json.loads(resolved.read_text(encoding="utf-8"))
    except ValueError:
        kept = None
    if not isinstance(kept, dict):
        raise RunFolderError(f"{str(resolved)!r} is damaged; start again under another name by --set name=NAME")
    return cast(dict[str, Any], kept)


def _sweep(path: Path) -> None:
    """Remove what a killed process had half written; what it had only put aside takes its place again."""
    for old in list(path.rglob(f".*{_OLD}")):
        whole = _in_place_of(old)
        if not whole.exists():
            old.rename(whole)
    for part in list(path.rglob(f".*{PART}")):
        if part.is_dir():
            shutil.rmtree(part)
        else:
            part.unlink(missing_ok=True)


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file so that it is whole or absent, whatever happens meanwhile."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}{PART}")
    try:
        write(temporary)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _put_aside(path: Path) -> Path:
    return path.with_name(f".{path.name}{_OLD}")


def _in_place_of(old: Path) -> Path:
    return old.with_name(old.name.removeprefix(".").removesuffix(_OLD))


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Give a temporary folder to fill; it takes the place of `path` when the block ends well.

    That takes two renames. A process that is killed between them leaves no `path`, but all of it put aside, and the
    next to open the run folder puts it back.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=PART, dir=path.parent))
    try:
        yield temporary
        for file in temporary.rglob("*"):
            if file.is_file():
                file.chmod(0o644)  # some libraries write for their own user alone
                with file.open("rb") as handle:
                    os.fsync(handle.fileno())
        temporary.chmod(0o755)
        if path.exists():
            old = _put_aside(path)
            shutil.rmtree(old, ignore_errors=True)
            path.rename(old)
            temporary.rename(path)
            shutil.rmtree(old)
        else:
            temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
