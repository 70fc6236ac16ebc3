"""The cache of layers: a folder for each key, filled once, put in place by one rename.

A key is the hash of whatever decides the content. `$BURNISH_CACHE/layers` (else `~/.cache/burnish/layers`) holds

    KEY/tree/          the layer itself, for `PlaceSpec.layers`
    KEY/manifest.json  what it was made from, and hashes of its listing and of its content
    .lock-KEY          an empty file; whoever builds KEY holds a lock on it
    .building-KEY      a layer that is not whole yet, or one that is being removed
    .uses              locks of those that use layers (`uses`)

Decisions: the lock belongs to the process, so a builder that was killed holds none, and what it left is swept by
the next build. A hit costs one walk: names, kinds, modes, sizes and times must be those of the manifest, else
the layer is built anew. Contents are read again only by `is_intact`. After a build, the layers that were used
longest ago go until the rest have no more than `$BURNISH_LAYERS_MB` (20,000; 0: no limit); never one in use.

Covered: builders in one process and in several; a kill at any moment. Not covered: work off the event loop (hashing
blocks it: build before a run, not in one); a cache folder on a network filesystem without locks.
"""

import asyncio
import fcntl
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import ValidationError

from burnish.core.config import Strict
from burnish.core.errors import SandboxError
from burnish.core.types import sha256_json
from burnish.sandbox.dependencies import uses

FORMAT: Final = 1
LOOK_EVERY_S: Final = 0.05
MOST_MB: Final = 20_000
Fill = Callable[[Path], Awaitable[bool]]
"""Writes a layer's tree; whether it stands for all of `/work`, so that the layers below it are not used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A folder for `PlaceSpec.layers`, and the environment in which what it holds is found."""

    path: Path
    env: Mapping[str, str]
    key: str
    num_bytes: int
    replaces_all: bool
    was_cached: bool


class Manifest(Strict):
    """What is written beside a layer. `listing` and `content` are hashes of its tree."""

    format: int
    inputs: dict[str, object]
    num_bytes: int
    replaces_all: bool
    listing: str
    content: str


class Entry(NamedTuple):
    """One entry below a folder, as it lies there; a link is an entry, never a way."""

    path: str
    status: os.stat_result


def default_cache() -> Path:
    """Where layers are kept."""
    root = os.environ.get("BURNISH_CACHE")
    return (Path(root) if root else Path.home() / ".cache" / "burnish") / "layers"


async def get(cache: Path, inputs: Mapping[str, object], fill: Fill, env: Mapping[str, str] | None = None) -> Layer:
    """Give the layer for these inputs; `fill` writes its tree if it is not there. Two at once build it once."""
    key, most_bytes = sha256_json({"format": FORMAT, **inputs}), _most_mb() << 20
    try:
        cache.mkdir(parents=True, exist_ok=True)
        uses.hold(cache, key)
        found = _find(cache, key, env or {})
        if found is not None:
            return found
        async with _locked(cache, key):
            found = _find(cache, key, env or {}) or await _build(cache, key, inputs, fill, env or {})
        if most_bytes:
            trim(cache, most_bytes)
        return found
    except OSError as error:
        raise SandboxError(
            f"layers: no layer could be made in {str(cache)!r}: {error}; "
            "if the folder is at fault, free space there or set BURNISH_CACHE to another"
        ) from error


def trim(cache: Path, most_bytes: int) -> None:
    """Remove the layers that were used longest ago, and are not in use, until the rest are no larger than this."""
    sizes: dict[str, int] = {}
    last_uses: dict[str, int] = {}
    for folder in cache.iterdir():
        manifest = _read_manifest(folder) if not folder.name.startswith(".") else None
        if manifest is not None:
            with suppress(FileNotFoundError):  # another process trims too
                last_uses[folder.name] = folder.stat().st_mtime_ns
                sizes[folder.name] = manifest.num_bytes
    for key in sorted(last_uses, key=lambda key: last_uses[key]):
        if sum(sizes.values()) <= most_bytes:
            return
        if _remove_unused(cache, key):
            del sizes[key]


def _remove_unused(cache: Path, key: str) -> bool:
    """Remove a layer unless it is in use; whether it is gone."""
    lock = _try_lock(cache, key)
    if lock is None:
        return not (cache / key).exists()
    try:
        gone = cache / f".building-{key}"
        with uses.unused(cache, key) as is_unused:
            if is_unused and (cache / key).exists():
                (cache / key).rename(gone)
        _remove(gone)
        return is_unused
    finally:
        os.close(lock)


def _most_mb() -> int:
    text = os.environ.get("BURNISH_LAYERS_MB", str(MOST_MB))
    if not re.fullmatch("[0-9]{1,9}", text):
        raise SandboxError(
            f"layers: BURNISH_LAYERS_MB = {text!r}; expected a number of megabytes, for example {MOST_MB}; 0: no limit"
        )
    return int(text)


def is_intact(layer: Layer) -> bool:
    """Read every byte of a layer and compare with its manifest."""
    manifest = _read_manifest(layer.path.parent)
    return manifest is not None and content_hash(layer.path) == manifest.content


def entries(folder: Path) -> Iterator[Entry]:
    """Every entry below a folder, by name, parents first; no link is followed."""
    pending = [""]
    while pending:
        parent = pending.pop()
        with os.scandir(folder / parent) as listed:
            for each in sorted(listed, key=lambda entry: entry.name):
                path = f"{parent}{each.name}"
                yield Entry(path, each.stat(follow_symlinks=False))
                if each.is_dir(follow_symlinks=False):
                    pending.append(f"{path}/")


def file_hash(path: Path) -> str:
    """Hash a regular file; a link is refused."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_hash(folder: Path) -> str:
    """Hash names, kinds, modes and contents of a tree."""
    return sha256_json([[path, status.st_mode, _content(folder / path, status)] for path, status in entries(folder)])


def _content(path: Path, status: os.stat_result) -> str:
    if stat.S_ISLNK(status.st_mode):
        return os.readlink(path)
    return file_hash(path) if stat.S_ISREG(status.st_mode) else ""


def _listing_hash(folder: Path) -> str:
    def row(entry: Entry) -> list[object]:
        is_folder = stat.S_ISDIR(entry.status.st_mode)  # whose size and time are the filesystem's affair
        rest: list[object] = [] if is_folder else [entry.status.st_size, entry.status.st_mtime_ns]
        return [entry.path, entry.status.st_mode, *rest]

    return sha256_json([row(entry) for entry in entries(folder)])


def _find(cache: Path, key: str, env: Mapping[str, str]) -> Layer | None:
    manifest = _read_manifest(cache / key)
    tree = cache / key / "tree"
    if manifest is None or not tree.is_dir() or _listing_hash(tree) != manifest.listing:
        return None
    os.utime(cache / key)  # when it was used last
    return _layer(tree, manifest, env, was_cached=True)


def _layer(tree: Path, manifest: Manifest, env: Mapping[str, str], was_cached: bool) -> Layer:
    return Layer(
        path=tree,
        env=env,
        key=tree.parent.name,
        num_bytes=manifest.num_bytes,
        replaces_all=manifest.replaces_all,
        was_cached=was_cached,
    )


def _read_manifest(folder: Path) -> Manifest | None:
    try:
        return Manifest.model_validate_json((folder / "manifest.json").read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValidationError):
        return None


async def _build(cache: Path, key: str, inputs: Mapping[str, object], fill: Fill, env: Mapping[str, str]) -> Layer:
    _sweep(cache)
    made = cache / f".building-{key}"
    _remove(made)
    if (cache / key).exists():  # damaged, or it would have been found
        (cache / key).rename(made)
        _remove(made)
    tree = made / "tree"
    tree.mkdir(parents=True)
    try:
        replaces_all = await fill(tree)
        num_bytes = sum(status.st_size for _, status in entries(tree) if stat.S_ISREG(status.st_mode))
        manifest = Manifest(
            format=FORMAT,
            inputs=dict(inputs),
            num_bytes=num_bytes,
            replaces_all=replaces_all,
            listing=_listing_hash(tree),
            content=content_hash(tree),
        )
        (made / "manifest.json").write_text(json.dumps(manifest.model_dump(), indent=1), encoding="utf-8")
        made.rename(cache / key)
    except BaseException:
        _remove(made)
        raise
    return _layer(cache / key / "tree", manifest, env, was_cached=False)


def _sweep(cache: Path) -> None:
    """Remove what killed builders left: whatever is being built under a lock that nobody holds."""
    for left in cache.glob(".building-*"):
        lock = _try_lock(cache, left.name.removeprefix(".building-"))
        if lock is not None:
            try:
                _remove(left)
            finally:
                os.close(lock)


def _remove(folder: Path) -> None:
    if folder.is_dir():
        shutil.rmtree(folder)


@asynccontextmanager
async def _locked(cache: Path, key: str) -> AsyncIterator[None]:
    while (lock := _try_lock(cache, key)) is None:
        await asyncio.sleep(LOOK_EVERY_S)
    try:
        yield
    finally:
        os.close(lock)


def _try_lock(cache: Path, key: str) -> int | None:
    lock = os.open(cache / f".lock-{key}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock
