"""Compile the native step once and keep it: `$BURNISH_CACHE`, else `~/.cache/burnish`, below `native/`.

An entry's name carries a hash of the sources, the compiler's version, the flags and the processor's instruction sets,
so that nothing is compiled twice and nothing stale is loaded. It appears whole or not at all; its checksum lies beside
it, and an entry that does not match is compiled again.

Covered: g++ 11 or newer on x86-64 Linux (`$CXX` names another). Not covered: cross-compiling.
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
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

_SOURCES = Path(__file__).parent / "csrc"
_COMMON = ("api", "check", "feed", "head", "levels", "pack")
_FLAGS = ("-std=c++20", "-O3", "-fPIC", "-fvisibility=hidden", "-Wno-psabi")
_AVX2 = ("-mavx2", "-mfma")
_AVX512 = ("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma", "-mprefer-vector-width=512")
_TIMEOUT_S = 600


class Unavailable(Exception):
    """The native step cannot be had here; the message says why."""


class Level(NamedTuple):
    """An instruction set: the processor's flags that it needs, and how its kernels are compiled."""

    name: str
    needs: frozenset[str]
    flags: tuple[str, ...]
    defines: tuple[str, ...]


_WIDE = frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl", "fma"})
LEVELS = (
    Level("avx2", frozenset({"avx2", "fma"}), _AVX2, ()),
    Level("avx512", _WIDE, _AVX512, ("-DBURNISH_WIDE",)),
    Level(
        "avx512_bf16", _WIDE | {"avx512_bf16"}, (*_AVX512, "-mavx512bf16"), ("-DBURNISH_WIDE", "-DBURNISH_DOTS")
    ),
    Level(
        "amx",
        _WIDE | {"avx512_bf16", "amx_tile", "amx_bf16"},
        (*_AVX512, "-mavx512bf16", "-mamx-tile", "-mamx-bf16"),
        ("-DBURNISH_WIDE", "-DBURNISH_DOTS", "-DBURNISH_TILES"),
    ),
)  # fmt: skip


def built_library(
    *, notice: Callable[[str], None], emulated: bool = False, cache: Path | None = None, timeout_s: float = _TIMEOUT_S
) -> Path:
    """The compiled library, from the cache or the compiler; `Unavailable` says why there is none.

    With `emulated`, all levels are compiled for AVX2, the instructions that it lacks replaced by loops: for tests.
    """
    compiler, version = _compiler(timeout_s)
    levels = LEVELS if emulated else tuple(level for level in LEVELS if level.needs <= processor_flags())
    if not levels:
        raise Unavailable(f"this processor ({platform.machine()}) has no AVX2")
    target = (cache or default_cache()) / f"step-{_fingerprint(version, levels, emulated)}.so"
    try:
        if not _is_whole(target):
            _prove_writable(target.parent)
            notice(f"compiling the native step into {str(target.parent)!r}, once (about 20 s)")
            _compile(compiler, levels, emulated, target, timeout_s)
    except OSError as error:
        raise Unavailable(f"it cannot be kept: {error}; name a folder that can be written in BURNISH_CACHE") from error
    return target


def default_cache() -> Path:
    """Where compiled steps are kept."""
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


def _compiler(timeout_s: float) -> tuple[str, str]:
    name = os.environ.get("CXX") or "g++"
    path = shutil.which(name)
    if path is None:
        raise Unavailable(f"there is no C++ compiler {name!r}; install g++, or name one in CXX")
    return path, _output([path, "--version"], timeout_s).stdout


def _fingerprint(version: str, levels: Sequence[Level], emulated: bool) -> str:
    compiled = [(level.name, level.flags, level.defines) for level in levels]  # a set's order is another each time
    digest = hashlib.sha256(repr((version, _FLAGS, compiled, emulated)).encode())
    for source in sorted(_SOURCES.iterdir()):
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


def _compile(compiler: str, levels: Sequence[Level], emulated: bool, target: Path, timeout_s: float) -> None:
    shared = ("-DBURNISH_EMULATED", "-O1") if emulated else ()
    with tempfile.TemporaryDirectory() as folder:
        units: dict[str, tuple[str, tuple[str, ...]]] = {name: (name, shared) for name in _COMMON}
        for level in levels:
            flags = (*_AVX2, *shared) if emulated else level.flags
            units[level.name] = ("kernels", (f"-DBURNISH_LEVEL={level.name}", *level.defines, *flags))
        commands = [
            [compiler, *_FLAGS, *flags, "-c", str(_SOURCES / f"{source}.cpp"), "-o", f"{folder}/{name}.o"]
            for name, (source, flags) in units.items()
        ]
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            list(threads.map(partial(_run, timeout_s=timeout_s), commands))
        objects = [f"{folder}/{name}.o" for name in units]
        _run([compiler, "-shared", "-pthread", *objects, "-o", f"{folder}/step.so"], timeout_s)
        content = Path(folder, "step.so").read_bytes()
    write_whole(target, content)
    write_whole(target.with_suffix(".sha256"), hashlib.sha256(content).hexdigest().encode())


def _output(command: list[str], timeout_s: float) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise Unavailable(
            f"{command[0]!r} was not done within {timeout_s:g} s, and was stopped; begin again when the machine has "
            "less to do, or name another compiler in CXX"
        ) from None


def _run(command: list[str], timeout_s: float) -> None:
    done = _output(command, timeout_s)
    if done.returncode != 0:
        first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[:200])
        raise Unavailable(f"{command[0]!r} cannot compile {Path(command[-3]).name!r}: {first}")
