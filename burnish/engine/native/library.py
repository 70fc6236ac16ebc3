"""The compiled step as Python sees it: its C functions, and the level that is trusted on this processor.

A level is trusted after a child process has run a tiny model through it and found what plain loops find; a crash or
an illegal instruction there ends the child alone. What was found is kept beside the library, by processor, and believed
only as long as the library says that the level runs here.
"""

import ctypes
import hashlib
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from ctypes import POINTER, Structure, c_char_p, c_float, c_int, c_int32, c_int64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from burnish.core.compiling import Unavailable, processor_flags, write_whole
from burnish.engine.native.build import built_library

_CHECK = "import ctypes, sys; sys.exit(ctypes.CDLL(sys.argv[1]).burnish_check(sys.argv[2].encode()))"
_CHECK_TIMEOUT_S = 120


class Shape(Structure):
    """`Shape` of csrc/api.h."""

    _fields_: ClassVar = [
        *((name, c_int64) for name in (
            "num_layers", "width", "num_heads", "num_kv_heads", "head_width", "inner_width", "vocabulary", "num_blocks",
        )),
        *((name, c_int32) for name in ("weights_kind", "layers_kind", "cache_kind")),
        *((name, c_float) for name in ("eps", "attention_scale", "rope_scale")),
    ]  # fmt: skip


class Linear(Structure):
    """`Linear` of csrc/api.h."""

    _fields_: ClassVar = [
        *((name, c_void_p) for name in ("weight", "bias", "down", "up")),
        *((name, c_int64) for name in ("rows", "columns", "rank")),
        ("scale", c_float),
        ("is_bf16", c_int32),
    ]


_FUNCTIONS = {
    "error": (c_char_p, []),
    "levels": (c_char_p, []),
    "check": (c_int, [c_char_p]),
    "open": (c_void_p, [POINTER(Shape), c_void_p, c_void_p, c_char_p, c_int]),
    "close": (None, [c_void_p]),
    "use_threads": (None, [c_void_p, c_int]),
    "bytes": (c_int64, [c_void_p]),
    "pack": (c_int, [c_void_p, c_int64, c_int, POINTER(Linear), c_int64]),
    "norm": (c_int, [c_void_p, c_int64, c_int, c_void_p, c_int64]),
    "embedding": (c_int, [c_void_p, c_void_p, c_int]),
    "adapter": (c_int, [c_void_p, c_int64, c_int64, c_int, POINTER(Linear), POINTER(Linear), c_int64]),
    "branch": (c_int64, [c_void_p, c_int64]),
    "fork": (c_int64, [c_void_p, c_int64, c_int64]),
    "drop": (c_int, [c_void_p, c_int64]),
    "length": (c_int64, [c_void_p, c_int64]),
    "fits": (c_int, [c_void_p, c_int64, c_void_p, c_void_p]),
    "block_bytes": (c_int64, [POINTER(Shape)]),
    "feed": (c_int, [c_void_p, c_int64, c_void_p, c_void_p, c_void_p, c_int, c_void_p]),
    "logits": (c_int, [c_void_p, c_int64, c_void_p, c_void_p]),
    "draw": (c_int, [c_void_p, c_int64, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "score": (c_int, [c_void_p, c_int64, c_void_p, c_void_p, c_void_p, c_void_p]),
}


class Library(NamedTuple):
    """The C functions, and the level to open models with."""

    functions: "Functions"
    level: str

    def call(self, name: str, *arguments: object) -> int:
        """Call one function; raise what it says if it fails."""
        result = self.functions[name](*arguments)
        if result is None or result < 0:
            raise RuntimeError(f"native step, {name}: {self.functions['error']().decode()}")
        return result


Functions = Mapping[str, Callable[..., Any]]  # what each returns is declared below, to ctypes


def load(path: Path) -> Functions:
    """Load a library and declare its functions."""
    library = ctypes.CDLL(str(path))
    functions = {name: library[f"burnish_{name}"] for name in _FUNCTIONS}
    for name, (result, arguments) in _FUNCTIONS.items():
        functions[name].restype, functions[name].argtypes = result, arguments
    return functions


def levels_of(functions: Functions) -> list[str]:
    """The levels that a library has and this processor runs, the best first."""
    return functions["levels"]().decode().split()


@cache
def open_library() -> Library:
    """Compile if need be, load, and choose the best level that passes its check; `Unavailable` says why not."""
    path = built_library(notice=_notice)
    functions = load(path)
    return Library(functions, trusted_level(path, levels_of(functions), _notice))


def trusted_level(path: Path, levels: list[str], notice: Callable[[str], None]) -> str:
    """The first of `levels` that passes its check, remembered by processor."""
    processor = hashlib.sha256(" ".join(sorted(processor_flags())).encode()).hexdigest()[:12]
    note = path.with_suffix(f".{processor}.level")
    noted = note.read_text(encoding="ascii", errors="replace") if note.is_file() else ""
    if noted in levels:
        return noted
    for level in levels:
        fault = _fault(path, level)
        if fault is None:
            with suppress(OSError):  # where nothing can be kept, each start checks again
                write_whole(note, level.encode())
            return level
        notice(f"native step: {level} fails its check on this processor ({fault}), so the next lower is tried")
    raise Unavailable("none of its instruction sets passes its check on this processor")


def _fault(path: Path, level: str) -> str | None:
    command = [sys.executable, "-I", "-S", "-c", _CHECK, str(path), level]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_CHECK_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return f"no answer within {_CHECK_TIMEOUT_S} s"
    if done.returncode == 0:
        return None
    return f"killed by signal {-done.returncode}" if done.returncode < 0 else "wrong results"


def _notice(message: str) -> None:
    sys.stderr.write(f"burnish: {message}\n")
