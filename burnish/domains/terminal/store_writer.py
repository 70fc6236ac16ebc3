"""Write a store of terminal tasks; `store` says what it looks like.

Decisions: a store is written beside its place and moved there in the end, so what a kill leaves is no store and the
next writer removes it. Equal tasks are written once. Nothing is kept in memory but the hashes of the tasks written.
"""

import hashlib
import json
import os
import shutil
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO

from burnish.core.errors import ConfigError
from burnish.core.types import Json, Split, sha256_json
from burnish.domains.terminal.spec import TerminalTask
from burnish.domains.terminal.store import TASKS, blob_path, texts_of

LONG: Final = 400
"""Characters from which a text that no base has is worth a file of its own."""


class StoreWriter:
    """A store while it is written; made by `writing`."""

    def __init__(self, path: Path, file: TextIO) -> None:
        self._path, self._file = path, file
        self._known: set[str] = set()
        self._bases: dict[str, Path] = {}

    def add_base(self, tree: Mapping[str, bytes]) -> str:
        """Keep a tree that tasks share; its content's hash, which is a task's `base`."""
        base = tree_hash(tree)
        folder = self._path / "bases" / base
        if not folder.exists():
            for name, content in tree.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(content)
        self._bases[base] = folder
        return base

    def add(self, split: Split, task: TerminalTask) -> bool:
        """Write a task; False if it is there already."""
        row = task.to_json()
        key = sha256_json(row)
        if key in self._known:
            return False
        self._known.add(key)
        if task.base and task.base not in self._bases:
            raise ConfigError(
                f"a task of {task.source!r} has the base {task.base!r}, which the store does not have; add_base"
            )
        for texts in texts_of(row):
            texts |= {name: self._kept(name, text, self._bases.get(task.base)) for name, text in texts.items()}
        self._file.write(json.dumps({"split": split, "task": row}, separators=(",", ":")) + "\n")
        return True

    def _kept(self, name: str, text: str, base: Path | None) -> Json:
        if base is not None and (base / name).is_file():
            stretch = _stretch((base / name).read_bytes().decode(errors="replace"), text)
            if stretch is not None and len(str(stretch.get("text", ""))) < max(LONG, len(text) // 2):
                return {"base": name, **stretch}
        if len(text) < LONG:
            return text
        data = text.encode()
        blob = hashlib.sha256(data).hexdigest()
        path = blob_path(self._path, blob)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(zlib.compress(data, 6))
        return {"blob": blob}


@contextmanager
def writing(path: Path) -> Iterator[StoreWriter]:
    """Write a store at `path`, which must not exist; it is there when the block has ended well."""
    if path.exists():
        raise ConfigError(f"{str(path)!r} exists; name a folder that does not, or remove it")
    beside = path.with_name(f".{path.name}.unfinished")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    with open(beside / TASKS, "w", encoding="utf-8") as file:
        yield StoreWriter(beside, file)
        file.flush()
        os.fsync(file.fileno())
    beside.rename(path)


def tree_hash(tree: Mapping[str, bytes]) -> str:
    """The hash of a tree: of its names and of what each file says."""
    return sha256_json({name: hashlib.sha256(content).hexdigest() for name, content in tree.items()})


def _stretch(old: str, new: str) -> dict[str, Json] | None:
    """Say `new` as `old` with one stretch replaced: nothing to replace where they are equal."""
    if old == new:
        return {}
    start = _num_common(old, new)
    end = _num_common(old[start:][::-1], new[start:][::-1])
    return {"from": start, "to": len(old) - end, "text": new[start : len(new) - end]}


def _num_common(one: str, other: str) -> int:
    """How many characters two texts begin with alike, by halving."""
    alike, most = 0, min(len(one), len(other))
    while alike < most:
        middle = (alike + most + 1) // 2
        alike, most = (middle, most) if one[alike:middle] == other[alike:middle] else (alike, middle - 1)
    return alike
