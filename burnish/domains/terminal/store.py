"""Terminal tasks kept in a folder: what `terminal:PATH` opens, and what builders and importers write.

    PATH/tasks.jsonl     one task a line, `{"split":"train","task":{...}}`
    PATH/blobs/ab/HASH   texts that are long, compressed, named by the SHA-256 of what they say
    PATH/bases/HASH/     trees that many tasks share, read-only layers of a place, named by their content

Decisions: a text of a task is a string where it is short, `{"base": name}` where a file of the task's tree says just
that, `{"base": name, "from": i, "to": j, "text": t}` where it is such a file with one stretch replaced (a planted
fault costs a line and not a file), and `{"blob": hash}` otherwise. Opening reads the file once and keeps where each
line begins, eight bytes a task; a task is read when it is asked for, and its base is never copied. `store_writer`
writes.
Covered: files of text; bases of any bytes. Not covered: stores that change while they are open.
"""

import json
import zlib
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from burnish.core.errors import ConfigError
from burnish.core.types import SPLITS, Split
from burnish.domains.terminal.spec import TerminalTask, from_json

TASKS: Final = "tasks.jsonl"
STARTS: Final[Mapping[Split, bytes]] = {split: b'{"split":"%s","task":' % split.encode() for split in SPLITS}
PLACES: Final = (("files",), ("check", "tests"), ("check", "data"))
"""Where a task holds texts by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """An open store: how many tasks, each by its number, and where bases lie."""

    path: Path
    offsets: Mapping[Split, "array[int]"]

    def size(self, split: Split) -> int:
        """How many tasks a split has."""
        return len(self.offsets[split])

    def task(self, split: Split, number: int) -> TerminalTask:
        """Read one task."""
        with open(self.path / TASKS, "rb") as file:
            file.seek(self.offsets[split][number])
            line = file.readline()
        where = f"{self.path / TASKS}, task {number} of {split}"
        try:
            row = json.loads(line)["task"]
            for texts in texts_of(row):
                texts |= {name: self._text(kept, str(row["base"])) for name, kept in texts.items()}
        except (ValueError, KeyError, OSError, zlib.error) as error:
            raise ConfigError(f"{where}: cannot be read: {error!r}; build or import the tasks again") from None
        return from_json(json.dumps(row), where)

    def base_folder(self, base: str) -> Path:
        """Where a shared tree lies."""
        return self.path / "bases" / base

    def _text(self, kept: object, base: str) -> str:
        match kept:
            case str():
                return kept
            case {"blob": str(name)}:
                return zlib.decompress(blob_path(self.path, name).read_bytes()).decode()
            case {"base": str(name), "from": int(start), "to": int(end), "text": str(text)}:
                whole = self._base_text(base, name)
                return whole[:start] + text + whole[end:]
            case {"base": str(name)}:
                return self._base_text(base, name)
            case _:
                raise ValueError(f"a text that is kept as {str(kept)[:80]!r}")

    def _base_text(self, base: str, name: str) -> str:
        return (self.base_folder(base) / name).read_bytes().decode()


def open_store(path: Path) -> Store:
    """Open a store; `ConfigError` if the folder is none."""
    tasks = path / TASKS
    if not tasks.is_file():
        made = "`burnish tasks build` and `burnish tasks import` make one"
        raise ConfigError(f"no terminal tasks in {str(path)!r}: it has no {TASKS}; {made}")
    offsets: dict[Split, array[int]] = {split: array("Q") for split in SPLITS}
    with open(tasks, "rb") as file:
        at = 0
        for number, line in enumerate(file, 1):
            split: Split | None = next((each for each in SPLITS if line.startswith(STARTS[each])), None)
            if split is None or not line.endswith(b"}\n"):
                raise ConfigError(
                    f"{tasks}, line {number}: {line[:60]!r} is no task of a store; build or import it again"
                )
            offsets[split].append(at)
            at += len(line)
    return Store(path=path, offsets=offsets)


def texts_of(row: Any) -> Iterator[dict[str, Any]]:
    """The mappings of name to text in a task's JSON."""
    for keys in PLACES:
        inner = row
        for key in keys:
            inner = inner.get(key) if isinstance(inner, dict) else None
        if isinstance(inner, dict):
            yield inner


def blob_path(path: Path, name: str) -> Path:
    """Where a blob lies; `ValueError` for a name that is no hash."""
    if len(name) != 64 or not set(name) <= set("0123456789abcdef"):
        raise ValueError(f"a blob named {name[:80]!r}")
    return path / "blobs" / name[:2] / name
