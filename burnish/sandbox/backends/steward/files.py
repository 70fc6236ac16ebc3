"""Files of a place, seen from within: each step of a path is opened without following a link."""

import base64
import contextlib
import os
import stat
from collections.abc import Mapping
from typing import Any

Request = Mapping[str, Any]


class Refused(Exception):
    """The request cannot be met; the message goes back."""


def write(request: Request) -> dict[str, Any]:
    """Write one file, making folders on the way."""
    write_bytes(request, request["path"], base64.b64decode(request["content"]))
    return {}


def read(request: Request) -> dict[str, Any]:
    """Read one regular file of at most `cap_bytes`."""
    with open(_opened(request, request["path"], os.O_RDONLY), "rb") as file:
        content = file.read(request["cap_bytes"] + 1)
    if len(content) > request["cap_bytes"]:
        raise Refused(f"{request['path']!r} is larger than {request['cap_bytes']} bytes")
    return {"content": base64.b64encode(content).decode()}


def write_bytes(request: Request, path: str, content: bytes) -> None:
    """Write a file; a link, a folder or a FIFO of that name is refused."""
    with open(_opened(request, path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, is_made=True), "wb") as file:
        file.write(content)


def real_path(request: Request, path: str) -> str:
    """Say where a path of the place really is."""
    start, parts = _parts(request, path)
    return "/".join([start, *parts])


def _parts(request: Request, path: str) -> tuple[str, list[str]]:
    """The folder that a path starts from, and its steps."""
    if "\0" in path:
        raise Refused("the path has a null character")
    start, rest = request["work"], path
    if path.startswith("/"):
        start = "/"
        for outside, inside in request["roots"].items():
            if path == outside or path.startswith(outside + "/"):
                start, rest = inside, path[len(outside) :]
    parts = [part for part in rest.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise Refused(f"{path!r} has '..' in it")
    return start, parts


def _open_folder(start: str, parts: list[str], is_made: bool) -> int:
    folder = os.open(start, os.O_RDONLY | os.O_DIRECTORY)
    for part in parts:
        above = folder
        try:
            if is_made:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=above)
            folder = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
        finally:
            os.close(above)
    return folder


def _opened(request: Request, path: str, flags: int, is_made: bool = False) -> int:
    start, parts = _parts(request, path)
    if not parts:
        raise Refused(f"{path!r} is a folder")
    folder = _open_folder(start, parts[:-1], is_made)
    try:
        fd = os.open(parts[-1], flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644, dir_fd=folder)
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise Refused(f"{path!r} is no regular file")
    return fd
