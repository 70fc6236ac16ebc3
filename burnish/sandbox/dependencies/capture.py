"""Bring what a RUN changed out of its place, as bytes that are not believed.

`tar` of the place's own root writes an archive to its stdout. What comes back is read on the host entry by entry:
files, folders, links and hard links among themselves, below the layer's folder, and nothing else; links are made last,
so that nothing is written through one; rights above `rwx` are dropped, and size and count are capped.

A layer can add and replace, not remove. So a RUN that only added and changed gives its changes, and one that removed
something gives all of `/work`, after which the layers below are no longer used.

Covered: GNU and busybox tar. Not covered: extended attributes, owners, archives larger than memory.
"""

import io
import os
import stat
import tarfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from burnish.core.errors import SandboxError
from burnish.sandbox.dependencies import cache
from burnish.sandbox.place import Command, Workspace
from burnish.sandbox.types import ResourceLimits

LIST: Final = "/tmp/.burnish-changed"
CHANGED: Final = f"{{ find . -type d; cat {LIST}; }} | tar --no-recursion -cf - -T -"
WHOLE: Final = "tar -cf - ."
PACK_S: Final = 600.0
OVERHEAD_BYTES: Final = 4096  # of the archive, for each entry


class Cap(NamedTuple):
    """How much may come back."""

    num_bytes: int
    num_entries: int


async def keep(place: Workspace, below: Sequence[Path], limits: ResourceLimits, tree: Path) -> bool:
    """Write into `tree` what differs from the place's start; whether that is all of `/work`."""
    end = await place.snapshot()
    differing = await place.diff(None, end)
    await place.restore(end)  # which kills whatever still runs
    cap = _cap(below, limits)
    names = [name for name, change in differing.items() if change != "deleted"]
    is_listable = not any("\n" in name or "\\" in name for name in names)
    if len(names) == len(differing) and is_listable:
        await place.write(LIST, "".join(f"./{name}\n" for name in names).encode(errors="surrogateescape"))
        archive = await _pack(place, CHANGED, cap)
        if archive is not None and _folders_in(archive) >= _folders_of(below):
            unpack(archive, tree, cap)
            return False
    archive = await _pack(place, WHOLE, cap)
    if archive is None:
        raise SandboxError(
            "layers: what a RUN left cannot be packed; its root needs sh, tar and find, its files must be readable "
            f"to their owner, and all of it at most {cap.num_bytes} bytes"
        )
    unpack(archive, tree, cap)
    return True


def _cap(below: Sequence[Path], limits: ResourceLimits) -> Cap:
    found = [status for each in below for _, status in cache.entries(each)]
    num_bytes = (limits.disk_mb << 20) + sum(status.st_size for status in found if stat.S_ISREG(status.st_mode))
    num_entries = limits.num_files + len(found)
    return Cap(num_bytes + OVERHEAD_BYTES * num_entries, num_entries)


async def _pack(place: Workspace, script: str, cap: Cap) -> bytes | None:
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "TAR_OPTIONS": "", "LC_ALL": "C"}
    command = Command(argv=("/bin/sh", "-c", script), env=env, wall_s=PACK_S, output_bytes=cap.num_bytes)
    outcome = await place.run(command)
    return outcome.stdout if outcome.exit_code == 0 else None


def _folders_in(archive: bytes) -> set[str]:
    with _opened(archive) as tar:
        return {_path(member.name) for member in tar if member.isdir()}


def _folders_of(layers: Sequence[Path]) -> set[str]:
    return {path for layer in layers for path, status in cache.entries(layer) if stat.S_ISDIR(status.st_mode)}


def _opened(archive: bytes) -> tarfile.TarFile:
    return tarfile.open(fileobj=io.BytesIO(archive), mode="r:", errors="surrogateescape")


def _path(name: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name:
        raise SandboxError(f"layers: a RUN's archive has the name {name!r}, which leads out of it")
    return "" if str(path) == "." else str(path)


def unpack(archive: bytes, tree: Path, cap: Cap) -> None:
    """Write an archive into a new folder, believing nothing of it."""
    links: list[tuple[Path, str]] = []
    folders: list[tuple[Path, int]] = []
    total_bytes = 0
    try:
        with _opened(archive) as tar:
            for number, member in enumerate(tar):
                total_bytes += member.size
                if number >= cap.num_entries or total_bytes > cap.num_bytes:
                    raise SandboxError(f"layers: a RUN left more than {cap.num_entries} entries, {cap.num_bytes} bytes")
                target = tree / _path(member.name)
                if member.issym():
                    links.append((target, member.linkname))
                    continue
                if member.isdir():
                    folders.append((target, member.mode & 0o777 | 0o700))
                _make(tar, member, target, tree)
        for target, mode in folders:
            target.chmod(mode)
        for target, _ in links:  # all folders before the first link, or a link's name could lead through another
            target.parent.mkdir(parents=True, exist_ok=True)
        for target, pointed in links:
            target.symlink_to(pointed)
    except (tarfile.TarError, OSError, ValueError, OverflowError) as error:
        raise SandboxError(f"layers: what a RUN left cannot be unpacked: {error}") from error


def _make(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path, tree: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if member.isdir():
        target.mkdir(exist_ok=True)
    elif member.islnk():
        os.link(tree / _path(member.linkname), target, follow_symlinks=False)
    elif member.isreg():
        _write_file(tar, member, target)
    else:
        raise SandboxError(f"layers: a RUN left {member.name!r}, which is no file, folder or link")


def _write_file(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    content = tar.extractfile(member)
    assert content is not None
    with content, target.open("xb") as file:
        while chunk := content.read(1 << 20):
            file.write(chunk)
    target.chmod(member.mode & 0o777 | 0o400)
    os.utime(target, (member.mtime, member.mtime))
