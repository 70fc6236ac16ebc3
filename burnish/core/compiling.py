"""Compile C++ once and keep it: `$BURNISH_CACHE`, else `~/.cache/burnish`, below `native/`.

An entry's name carries a hash of the sources, the compiler's version and what the compiler is told, so that nothing is
compiled twice and nothing stale is loaded. It appears whole or not at all; its checksum lies beside it, and an entry
that does not match is compiled again.

Covered: g++ 11 or newer on Linux (`$CXX` names another). Not covered: cross-compiling.
"""

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

TIMEOUT_S = 600


class Unavailable(Exception):
    """What is compiled cannot be had here; the message says why."""


class Compiler(NamedTuple):
    """A C++ compiler, what it says of itself, and how long it may take."""

    path: str
    version: str
    timeout_s: float

    def run(self, arguments: Sequence[str]) -> None:
        """Compile or link; `arguments` end with `SOURCE -o OUTPUT`."""
        done = _output([self.path, *arguments], self.timeout_s)
        if done.returncode != 0:
            first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[:200])
            raise Unavailable(f"{self.path!r} cannot compile {Path(arguments[-3]).name!r}: {first}")


class Make(Protocol):
    """Compile a library into a file of this name."""

    def __call__(self, compiler: Compiler, target: Path) -> None:
        """`Unavailable` says why it cannot be done."""
        ...


def kept_library(
    name: str, sources: Path, told: object, make: Make, *, announce: Callable[[Path], None], cache: Path | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Path:  # fmt: skip
    """The library `name`, from the cache or by `make`; `told` is all that decides how the sources are compiled.

    `announce` is told the folder before anything is compiled.
    """
    compiler = _compiler(timeout_s)
    target = (cache or default_cache()) / f"{name}-{_fingerprint(compiler, sources, told)}.so"
    try:
        if not _is_whole(target):
            _prove_writable(target.parent)
            announce(target.parent)
            _make_whole(make, compiler, target)
    except OSError as error:
        raise Unavailable(f"it cannot be kept: {error}; name a folder that can be written in BURNISH_CACHE") from error
    return target


def default_cache() -> Path:
    """Where compiled libraries are kept."""
    root = os.environ.get("BURNISH_CACHE")
    return (Path(root) if root else Path.home() / ".cache" / "burnish") / "native"


def processor_flags() -> frozenset[str]:
    """What the processor can do, in Linux's words; empty elsewhere."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return frozenset()
    found = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    return frozenset(found[1].split()) if found else frozenset()


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that appears whole or not at all, whoever else writes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}-", delete=False) as file:
        file.write(content)
    Path(file.name).replace(path)


def _compiler(timeout_s: float) -> Compiler:
    name = os.environ.get("CXX") or "g++"
    path = shutil.which(name)
    if path is None:
        raise Unavailable(f"there is no C++ compiler {name!r}; install g++, or name one in CXX")
    return Compiler(path, _output([path, "--version"], timeout_s).stdout, timeout_s)


def _fingerprint(compiler: Compiler, sources: Path, told: object) -> str:
    digest = hashlib.sha256(repr((compiler.version, told)).encode())
    for source in sorted(sources.iterdir()):
        if source.is_file():
            digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:20]


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _is_whole(library: Path) -> bool:
    checksum = library.with_suffix(".sha256")
    return library.is_file() and checksum.is_file() and checksum.read_bytes() == _checksum(library).encode()


def _prove_writable(folder: Path) -> None:
    """`OSError` if no file can be made there: better before the compiler has run than after."""
    folder.mkdir(parents=True, exist_ok=True)
    tempfile.TemporaryFile(dir=folder).close()


def _make_whole(make: Make, compiler: Compiler, target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "library.so")
        make(compiler, made)
        content = made.read_bytes()
    write_whole(target, content)
    write_whole(target.with_suffix(".sha256"), hashlib.sha256(content).hexdigest().encode())


def _output(command: Sequence[str], timeout_s: float) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise Unavailable(
            f"{command[0]!r} was not done within {timeout_s:g} s, and was stopped; begin again when the machine has "
            "less to do, or name another compiler in CXX"
        ) from None
