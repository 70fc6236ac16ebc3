"""The functions of csrc/rows.cpp on tensors of a processor, in float32 or bfloat16; and None where they cannot be had.

They are compiled at first use for the processor that is there, and kept. What they compute is compared with torch once
a process before they are trusted; where they fail, or nothing compiles, torch does it all and a line says so.
"""

import ctypes
import platform
import sys
from collections.abc import Callable
from ctypes import c_float, c_int, c_int64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from burnish.core.compiling import Compiler, Unavailable, kept_library, processor_flags

_SOURCES = Path(__file__).parent / "csrc"
_FLAGS = (
    "-std=c++20", "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-fopenmp", "-fPIC", "-shared",
)  # fmt: skip
_DTYPES = {torch.float32: 0, torch.bfloat16: 1}
_BLOCK_ROWS = 64  # as csrc/rows.cpp has it
_POINTERS_AND_SIZES = {
    "norm": [c_void_p] * 4 + [c_int64] * 2 + [c_float],
    "norm_back": [c_void_p] * 6 + [c_int64] * 2,
    "gated": [c_void_p] * 3 + [c_int64],
    "gated_back": [c_void_p] * 5 + [c_int64],
    "softmax": [c_void_p] * 5 + [c_int64] * 3 + [c_float, c_int],
    "softmax_back": [c_void_p] * 6 + [c_int64] * 3 + [c_float],
    "add": [c_void_p] * 2 + [c_int64],
}


class SoftmaxRows(NamedTuple):
    """Of softmax(scale z), a row each: log-probabilities of the ids, the log of the normaliser, the entropy (nats)."""

    logprobs_N_K: Tensor
    log_sums_N: Tensor
    entropies_N: Tensor


class Rows:
    """The compiled functions. Tensors must be contiguous; results are new unless a method says otherwise."""

    def __init__(self, library: Path) -> None:
        loaded = ctypes.CDLL(str(library))
        self._functions: dict[str, Callable[..., Any]] = {}
        for name, arguments in _POINTERS_AND_SIZES.items():
            function = loaded[f"burnish_{name}"]
            function.restype, function.argtypes = None, [c_int, *arguments, c_int]
            self._functions[name] = function

    def norm(self, x_N_D: Tensor, weight_D: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        """x / sqrt(mean(x^2) + eps) times the weight, and each row's factor in float32."""
        y_N_D, inverse_N = torch.empty_like(x_N_D), x_N_D.new_empty(len(x_N_D), dtype=torch.float32)
        self._call("norm", x_N_D, weight_D, y_N_D, inverse_N, *x_N_D.shape, eps)
        return y_N_D, inverse_N

    def norm_back(
        self, dy_N_D: Tensor, x_N_D: Tensor, weight_D: Tensor, inverse_N: Tensor, *, weight_trains: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Gradients of `norm` by x, and by the weight where it trains."""
        dx_N_D = torch.empty_like(x_N_D)
        num, width = x_N_D.shape
        parts_B_D = inverse_N.new_empty(-(-num // _BLOCK_ROWS), width) if weight_trains else None
        self._call("norm_back", dy_N_D, x_N_D, weight_D, inverse_N, dx_N_D, parts_B_D, num, width)
        return dx_N_D, None if parts_B_D is None else parts_B_D.sum(0).to(weight_D.dtype)

    def gated(self, gate: Tensor, up: Tensor) -> Tensor:
        """silu(gate) up."""
        y = torch.empty_like(gate)
        self._call("gated", gate, up, y, gate.numel())
        return y

    def gated_back(self, dy: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients of `gated` by gate and up."""
        dgate, dup = torch.empty_like(gate), torch.empty_like(up)
        self._call("gated_back", dy, gate, up, dgate, dup, gate.numel())
        return dgate, dup

    def softmax(self, z_N_V: Tensor, ids_N_K: Tensor, scale: float, *, keeps: bool) -> SoftmaxRows:
        """See `SoftmaxRows`; with `keeps`, z becomes the probabilities. `IndexError` if an id is none of z's."""
        num, width = z_N_V.shape
        _check_ids(ids_N_K, width)
        logprobs_N_K = z_N_V.new_empty(ids_N_K.shape, dtype=torch.float32)
        log_sums_N, entropies_N = logprobs_N_K.new_empty(num), logprobs_N_K.new_empty(num)
        self._call(
            "softmax", z_N_V, ids_N_K, logprobs_N_K, log_sums_N, entropies_N, num, width, ids_N_K.shape[1], scale,
            int(keeps),
        )  # fmt: skip
        return SoftmaxRows(logprobs_N_K, log_sums_N, entropies_N)

    def softmax_back(
        self, z_N_V: Tensor, ids_N_K: Tensor, of_logprobs_N_K: Tensor, of_entropies_N: Tensor | None,
        log_sums_N: Tensor, entropies_N: Tensor, scale: float,
    ) -> None:  # fmt: skip
        """z becomes its gradient, over the scale, of log-probabilities and entropies that `softmax` gave."""
        num, width = z_N_V.shape
        _check_ids(ids_N_K, width)
        self._call(
            "softmax_back", z_N_V, ids_N_K, of_logprobs_N_K, log_sums_N, of_entropies_N, entropies_N, num, width,
            ids_N_K.shape[1], scale,
        )  # fmt: skip

    def add(self, total: Tensor, x: Tensor) -> None:
        """Add to float32 numbers in place."""
        assert total.shape == x.shape and total.dtype == torch.float32
        self._call("add", x, total, x.numel())

    def _call(self, name: str, first: Tensor, *arguments: "Tensor | float | None") -> None:
        kept = [given for given in (first, *arguments) if isinstance(given, Tensor)]
        assert all(given.is_contiguous() for given in kept), name
        pointers = [given.data_ptr() if isinstance(given, Tensor) else given for given in (first, *arguments)]
        self._functions[name](_DTYPES[first.dtype], *pointers, _threads())


def rows_for(*tensors: Tensor) -> Rows | None:
    """The compiled functions, where they can be had for tensors of this kind, all of one precision."""
    first = tensors[0]
    fits = first.dtype in _DTYPES and all(t.device.type == "cpu" and t.dtype == first.dtype for t in tensors)
    return _trusted() if fits else None


def add_into(total: Tensor, x: Tensor) -> Tensor:
    """Add x to a float32 sum in place, on a processor without a copy of it in float32."""
    rows = rows_for(x) if total.is_contiguous() else None
    if rows is None:
        return total.add_(x)
    rows.add(total, x.contiguous())
    return total


@cache
def _trusted() -> Rows | None:
    try:
        rows = Rows(_library())
        check(rows)
    except (Unavailable, OSError) as error:
        sys.stderr.write(f"burnish: rows of a training step go through torch, which is slower: {error}\n")
        return None
    return rows


def _library() -> Path:
    flags = sorted(processor_flags())
    told = (_FLAGS, platform.machine(), flags)

    def make(compiler: Compiler, target: Path) -> None:
        wide = ["-mprefer-vector-width=512"] if "avx512f" in flags else []
        compiler.run([*_FLAGS, *wide, str(_SOURCES / "rows.cpp"), "-o", str(target)])

    def announce(folder: Path) -> None:
        sys.stderr.write(f"burnish: compiling what training does on rows into {str(folder)!r}, once (about 5 s)\n")

    return kept_library("rows", _SOURCES, told, make, announce=announce)


@torch.no_grad()
def check(rows: Rows) -> None:
    """`Unavailable` if a function does not compute what torch does, in one of the precisions."""
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.bfloat16, 2e-2)):
        generator = torch.Generator().manual_seed(7)
        x_N_D, up_N_D, weight_D = (
            torch.randn(shape, generator=generator).mul_(2).to(dtype) for shape in ((70, 48), (70, 48), (48,))
        )
        ids_N_K = torch.arange(140).remainder_(48).reshape(70, 2)
        normed_N_D = functional.rms_norm(x_N_D.float(), (48,), eps=1e-6) * weight_D.float()
        logprobs_N_D = torch.log_softmax(x_N_D.float() / 2, -1)
        found = rows.softmax(x_N_D.clone(), ids_N_K, 0.5, keeps=False)
        pairs = {
            "norm": (rows.norm(x_N_D, weight_D, 1e-6)[0], normed_N_D),
            "gated": (rows.gated(x_N_D, up_N_D), functional.silu(x_N_D.float()) * up_N_D.float()),
            "softmax": (found.logprobs_N_K, logprobs_N_D.gather(-1, ids_N_K)),
            "entropy": (found.entropies_N, -(logprobs_N_D.exp() * logprobs_N_D).sum(-1)),
        }
        for name, (ours, theirs) in pairs.items():
            if not torch.allclose(ours.float(), theirs, rtol=tolerance, atol=tolerance):
                raise Unavailable(f"{name} in {dtype} differs from torch's on this processor")


def _check_ids(ids_N_K: Tensor, width: int) -> None:
    """What is compiled reads and writes where an id says."""
    if ids_N_K.numel() and not (int(ids_N_K.min()) >= 0 and int(ids_N_K.max()) < width):
        raise IndexError(f"token ids from {int(ids_N_K.min())} to {int(ids_N_K.max())}, where there are {width} tokens")


def _threads() -> int:
    return torch.get_num_threads()
