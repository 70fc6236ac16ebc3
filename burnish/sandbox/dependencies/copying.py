"""What a COPY takes: names below the context, read without following a link, with the hash that decides its layer.

Refused: `..`, a source that is a link or lies behind one, a link whose target is outside of
what is copied with it, devices, pipes and sockets, a context with a `.dockerignore` (it is not read, so what it keeps
out would come in), and a target that the layers below have as a link or as the other kind.
"""

import glob
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from burnish.core.errors import SandboxError
from burnish.sandbox.dependencies import cache
from burnish.sandbox.dependencies.dockerfile import refuse

Kind = Literal["file", "folder", "link"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One entry to be made below `/work`. `content` is a file's hash, or where a link points."""

    source: Path
    target: str
    kind: Kind
    mode: int
    content: str = ""


def kind_below(layers: Sequence[Path], path: str) -> Kind | None:
    """What the layers have at a path below `/work`; the topmost that has it counts."""
    for layer in reversed(layers):
        try:
            mode = os.lstat(layer / path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        return "folder" if stat.S_ISDIR(mode) else "link" if stat.S_ISLNK(mode) else "file"
    return None


def folders_to(layers: Sequence[Path], path: str, line: int) -> None:
    """Refuse a path below `/work` that does not lead through folders alone."""
    for parent in reversed(PurePosixPath(path).parents):
        kind = kind_below(layers, str(parent)) if str(parent) != "." else None
        if kind in ("link", "file"):
            raise SandboxError(
                f"Dockerfile: line {line}: '/work/{parent}' is a {kind}; name the folder that is meant itself"
            )


def items(context: Path, sources: Sequence[str], target: str, layers: Sequence[Path], line: int) -> list[Item]:
    """List what a COPY makes; `target` is a path below `/work`, with a `/` at its end if it is to be a folder."""
    if (context / ".dockerignore").exists():
        refuse(line, "a context with a .dockerignore", "give a context folder that holds only what is to be copied")
    found = [match for source in sources for match in _matches(context, source, line)]
    place = target.strip("/")
    is_folder = target.endswith("/") or place == "" or kind_below(layers, place) == "folder"
    if len(found) > 1 and not is_folder:
        raise SandboxError(f"Dockerfile: line {line}: COPY of {len(found)} sources needs a target that ends in '/'")
    made: dict[str, Item] = {}
    for match in found:
        made |= {item.target: item for item in _listed(context, match, place, is_folder, line)}
    for item in made.values():
        folders_to(layers, item.target, line)
        above = [made[str(parent)] for parent in PurePosixPath(item.target).parents if str(parent) in made]
        if any(each.kind != "folder" for each in above):
            raise SandboxError(f"Dockerfile: line {line}: COPY makes '/work/{item.target}' below what is no folder")
        below = kind_below(layers, item.target)
        if below is not None and (below == "folder") != (item.kind == "folder"):
            raise SandboxError(f"Dockerfile: line {line}: '/work/{item.target}' is a {below} already")
    return list(made.values())


def _matches(context: Path, source: str, line: int) -> list[str]:
    path = PurePosixPath(source.lstrip("/"))
    if "://" in source or source.startswith("git@"):
        refuse(line, f"COPY of an address, {source!r}")
    if ".." in path.parts or "\0" in source:
        raise SandboxError(f"Dockerfile: line {line}: COPY {source!r} leads out of the context; name what is below it")
    text = str(path)
    is_pattern = glob.has_magic(text)
    found = sorted(glob.glob(text, root_dir=context, include_hidden=True)) if is_pattern else [text]
    for match in found:
        _check_way(context, match, line)
    if not found or not os.path.lexists(context / found[0]):
        raise SandboxError(f"Dockerfile: line {line}: COPY {source!r}: nothing of that name in {str(context)!r}")
    return found


def _check_way(context: Path, match: str, line: int) -> None:
    path = PurePosixPath(match)
    for part in (*reversed(path.parents), path):
        if str(part) != "." and (context / part).is_symlink():
            raise SandboxError(
                f"Dockerfile: line {line}: COPY {match!r}: {str(part)!r} is a link; name what it points to, "
                "if that is in the context"
            )


def _listed(context: Path, match: str, place: str, is_folder: bool, line: int) -> Iterator[Item]:
    top = context / match
    status = os.lstat(top)
    if stat.S_ISDIR(status.st_mode):
        if place:
            yield Item(source=top, target=place, kind="folder", mode=0o755)
        for path, below in cache.entries(top):
            yield _item(top / path, f"{place}/{path}".lstrip("/"), below, path, line)
    else:
        name = f"{place}/{top.name}".lstrip("/") if is_folder else place
        yield _item(top, name, status, top.name, line)


def _item(source: Path, target: str, status: os.stat_result, path: str, line: int) -> Item:
    mode = stat.S_IMODE(status.st_mode) & 0o777
    if stat.S_ISDIR(status.st_mode):
        return Item(source=source, target=target, kind="folder", mode=mode | 0o700)
    if stat.S_ISREG(status.st_mode):
        return Item(source=source, target=target, kind="file", mode=mode | 0o400, content=cache.file_hash(source))
    if stat.S_ISLNK(status.st_mode):
        pointed = os.readlink(source)
        inner = os.path.normpath(PurePosixPath("/top", path).parent / pointed)
        if pointed.startswith("/") or not (inner + "/").startswith("/top/"):
            raise SandboxError(
                f"Dockerfile: line {line}: COPY: {str(source)!r} is a link out of what is copied, to {pointed!r}"
            )
        return Item(source=source, target=target, kind="link", mode=0o777, content=pointed)
    raise SandboxError(f"Dockerfile: line {line}: COPY: {str(source)!r} is no file, folder or link")


def write(made: Sequence[Item], tree: Path, line: int) -> None:
    """Make the entries; a file that is not what it was when it was hashed is an error."""
    for item in made:
        target = tree / item.target
        target.parent.mkdir(parents=True, exist_ok=True)
        if item.kind == "folder":
            target.mkdir(exist_ok=True)
        elif item.kind == "link":
            target.symlink_to(item.content)
        else:
            _copy(item, target)
            if cache.file_hash(target) != item.content:
                raise SandboxError(f"Dockerfile: line {line}: COPY: {str(item.source)!r} changed while it was read")
        if item.kind != "link":
            target.chmod(item.mode)


def _copy(item: Item, target: Path) -> None:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(item.source, flags), "rb") as reader, target.open("xb") as writer:
        while chunk := reader.read(1 << 20):
            writer.write(chunk)
