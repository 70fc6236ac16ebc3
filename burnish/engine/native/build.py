"""Compile the native step, each instruction set that the processor has by itself (see `core/compiling.py`).

Covered: x86-64 processors with AVX2 or more.
"""

import os
import platform
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from burnish.core.compiling import TIMEOUT_S, Compiler, Unavailable, kept_library, processor_flags

_SOURCES = Path(__file__).parent / "csrc"
_COMMON = ("api", "check", "feed", "head", "levels", "pack")
_FLAGS = ("-std=c++20", "-O3", "-fPIC", "-fvisibility=hidden", "-Wno-psabi")
_AVX2 = ("-mavx2", "-mfma")
_AVX512 = ("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma", "-mprefer-vector-width=512")


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
    *, notice: Callable[[str], None], emulated: bool = False, cache: Path | None = None, timeout_s: float = TIMEOUT_S
) -> Path:
    """The compiled library, from the cache or the compiler; `Unavailable` says why there is none.

    With `emulated`, all levels are compiled for AVX2, the instructions that it lacks replaced by loops: for tests.
    """
    levels = LEVELS if emulated else tuple(level for level in LEVELS if level.needs <= processor_flags())
    told = (
        _FLAGS,
        [(level.name, level.flags, level.defines) for level in levels],
        emulated,
    )  # no set: its order varies

    def make(compiler: Compiler, target: Path) -> None:
        if not levels:
            raise Unavailable(f"this processor ({platform.machine()}) has no AVX2")
        _compile(compiler, levels, emulated, target)

    def announce(folder: Path) -> None:
        notice(f"compiling the native step into {str(folder)!r}, once (about 20 s)")

    return kept_library("step", _SOURCES, told, make, announce=announce, cache=cache, timeout_s=timeout_s)


def _compile(compiler: Compiler, levels: tuple[Level, ...], emulated: bool, target: Path) -> None:
    shared = ("-DBURNISH_EMULATED", "-O1") if emulated else ()
    units: dict[str, tuple[str, tuple[str, ...]]] = {name: (name, shared) for name in _COMMON}
    for level in levels:
        flags = (*_AVX2, *shared) if emulated else level.flags
        units[level.name] = ("kernels", (f"-DBURNISH_LEVEL={level.name}", *level.defines, *flags))
    objects = {name: str(target.with_name(f"{name}.o")) for name in units}
    commands = [
        [*_FLAGS, *flags, "-c", str(_SOURCES / f"{source}.cpp"), "-o", objects[name]]
        for name, (source, flags) in units.items()
    ]
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(compiler.run, commands))
    compiler.run(["-shared", "-pthread", *objects.values(), "-o", str(target)])
