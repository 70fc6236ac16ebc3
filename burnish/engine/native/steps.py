"""`NativeSteps`: the decode path in C++. One call feeds all branches, one draws for all rows.

The matrices are packed once and again by `refresh`; embeddings are read in place. A row's numbers do not depend on
what else is in the batch, on how its tokens were cut into calls, or on what it shares: decoding, prompts and scoring
go through the same kernels in the same order, so `score` gives the bits that `draw` gave.

LoRA adapters by name: A and B go through the same products as all else, and what they give is added before a matrix's
result is used, for the rows that are theirs. They are in the model's precision, with `weights="int8"` too.

Options: `weights="int8"` keeps the layers' matrices (not the head) in 8 bits, one scale an output; `cache="int8"`
keeps keys and values in 8 bits, one scale a token and head. See docs/native_engine.md for what they cost.
Not covered: models that `reason_why_not` refuses; one object used by several threads at once.
"""

import ctypes
import weakref
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Literal

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from burnish.core.compiling import Unavailable
from burnish.core.errors import ConfigError
from burnish.engine.adapters import Adapter, LowRank, check_adapter
from burnish.engine.native import layers
from burnish.engine.native.library import Library, Linear, Shape, open_library
from burnish.engine.sampler import Draw
from burnish.engine.steps import Work
from burnish.models.lora import LoraLinear

Precision = Literal["auto", "int8"]

_BLOCK_TOKENS = 32  # as csrc/kernels.hpp has it
_KINDS = {torch.float32: 0, torch.bfloat16: 1}
_INT8 = 2
_RANKS = 32  # depths of a product come in so many


def reason_why_not(model: PreTrainedModel) -> str | None:
    """Why the native step cannot run a model here; None if it can. Compiles the step if need be."""
    reason = layers.why_not(model)
    if reason is not None:
        return reason
    try:
        open_library()
    except Unavailable as error:
        return str(error)
    return None


class NativeSteps:
    """See `burnish.engine.steps.Steps`; `ConfigError` if it cannot run the model."""

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        memory_mb: int,
        weights: Precision = "auto",
        cache: Precision = "auto",
        library: Library | None = None,
    ) -> None:
        reason = layers.why_not(model) if library else reason_why_not(model)
        if reason is not None:
            raise ConfigError(f"the native step cannot run this model: {reason}; use the torch path")
        self._library = library or open_library()
        self._model = model
        self._shape = _shape(model, weights, cache)
        block_bytes = self._library.call("block_bytes", self._shape)
        self._shape.num_blocks = (memory_mb << 20) // block_bytes
        if self._shape.num_blocks < 1:
            raise ConfigError(
                f"engine.kv_memory_mb is {memory_mb}, and {_BLOCK_TOKENS} tokens of this model take "
                f"{block_bytes / (1 << 20):.1f} MiB; raise it"
            )
        self._handle = self._open()
        weakref.finalize(self, self._library.functions["close"], self._handle)
        self._kept: list[Tensor] = []
        self._adapters: dict[str, int] = {}
        self.refresh()

    @property
    def capacity(self) -> int:
        """See `Steps`."""
        return self._shape.num_blocks * _BLOCK_TOKENS

    @property
    def packed_bytes(self) -> int:
        """What the packed matrices take."""
        return self._library.call("bytes", self._handle)

    def open(self, parent: int | None = None, length: int | None = None, *, adapter: str | None = None) -> int:
        """See `Steps`. Whole blocks are shared; a shared last one is copied when it grows."""
        if parent is None:
            number = 0 if adapter is None else self._adapters[adapter]
            return self._library.call("branch", self._handle, number)
        held = self._library.call("length", self._handle, parent) if length is None else length
        return self._library.call("fork", self._handle, parent, held)

    def drop(self, branch: int) -> None:
        """See `Steps`."""
        self._library.call("drop", self._handle, branch)

    def fits(self, work: Sequence[Work]) -> bool:
        """See `Steps`."""
        branches, counts = _columns(work)
        return self._library.call("fits", self._handle, len(work), branches, counts) == 1

    def feed(self, work: Sequence[Work], *, every_token: bool = False) -> Tensor:
        """See `Steps`; hidden states are float32, after the last norm."""
        assert all(one.token_ids for one in work)
        branches, counts = _columns(work)
        num_tokens = sum(len(one.token_ids) for one in work)
        token_ids = (ctypes.c_int64 * num_tokens)(*chain.from_iterable(one.token_ids for one in work))
        hidden_N_D = torch.empty(num_tokens if every_token else len(work), self._shape.width)
        self._set_threads()
        self._library.call(
            "feed", self._handle, len(work), branches, counts, token_ids, every_token, hidden_N_D.data_ptr()
        )
        return hidden_N_D

    def logits(self, hidden_N_D: Tensor) -> Tensor:
        """See `Steps`."""
        logits_N_V = torch.empty(len(hidden_N_D), self._shape.vocabulary)
        self._head("logits", hidden_N_D, logits_N_V)
        return logits_N_V

    def draw(self, hidden_N_D: Tensor, temperatures_N: Tensor, uniforms_N: Tensor) -> Draw:
        """See `Steps`."""
        token_ids_N = torch.empty(len(hidden_N_D), dtype=torch.long)
        logprobs_N = torch.empty(len(hidden_N_D))
        self._head("draw", hidden_N_D, temperatures_N.float(), uniforms_N.float(), token_ids_N, logprobs_N)
        return Draw(token_ids_N, logprobs_N)

    def score(self, hidden_N_D: Tensor, temperatures_N: Tensor, token_ids_N: Tensor) -> Tensor:
        """Log-probability of given tokens under softmax(logits / temperature): the bits that `draw` gives for them."""
        logprobs_N = torch.empty(len(hidden_N_D))
        self._head("score", hidden_N_D, temperatures_N.float(), token_ids_N.long(), logprobs_N)
        return logprobs_N

    @torch.no_grad()
    def put_adapter(self, name: str, adapter: Adapter) -> None:
        """See `Steps`."""
        check_adapter(self._model, name, adapter)
        number = self._adapters.setdefault(name, len(self._adapters) + 1)
        self._set_threads()
        for group in layers.groups(self._model):
            if group.which != layers.HEAD:
                self._put(number, group, adapter)

    @torch.no_grad()
    def refresh(self) -> None:
        """See `Steps`: pack all weights again, adapters merged."""
        self._set_threads()
        for group in layers.groups(self._model):
            kept: list[Tensor] = []
            parts = (Linear * len(group.linears))(*(_linear(one, kept) for one in group.linears.values()))
            self._library.call("pack", self._handle, group.layer, group.which, parts, len(parts))
        for norm in layers.norms(self._model):
            weight_D = norm.weight.detach().float().contiguous()
            self._library.call("norm", self._handle, norm.layer, norm.which, weight_D.data_ptr(), len(weight_D))
        embedding_V_D = self._model.get_input_embeddings().get_parameter("weight").detach().contiguous()
        self._kept = [embedding_V_D]
        is_bf16 = embedding_V_D.dtype == torch.bfloat16
        self._library.call("embedding", self._handle, embedding_V_D.data_ptr(), is_bf16)

    def _open(self) -> int:
        frequencies = layers.inverse_frequencies(self._model)
        windows = layers.sizes(self._model).windows_L
        return self._library.call(
            "open",
            self._shape,
            frequencies.data_ptr(),
            (ctypes.c_int64 * len(windows))(*windows),
            self._library.level.encode(),
            torch.get_num_threads(),
        )

    def _put(self, number: int, group: layers.Group, adapter: Adapter) -> None:
        """Hand over what an adapter adds to one matrix, or that it adds nothing."""
        lows = {name: adapter[name] for name in group.linears if name in adapter}
        if not lows:
            self._library.call("adapter", self._handle, number, group.layer, group.which, None, None, 0)
            return
        down_R_I, ups = _joined(group, lows)
        parts = (Linear * len(ups))(*map(_matrix, ups))
        self._library.call(
            "adapter", self._handle, number, group.layer, group.which, _matrix(down_R_I), parts, len(ups)
        )

    def _set_threads(self) -> None:
        self._library.functions["use_threads"](self._handle, torch.get_num_threads())

    def _head(self, name: str, hidden_N_D: Tensor, *tensors: Tensor) -> None:
        """Call a function of the head; tensors that it writes are contiguous, so that they are passed as they are."""
        passed = [hidden_N_D.float().contiguous(), *(tensor.contiguous() for tensor in tensors)]
        assert all(len(tensor) == len(hidden_N_D) for tensor in passed)
        self._set_threads()
        self._library.call(name, self._handle, len(hidden_N_D), *(tensor.data_ptr() for tensor in passed))


def _shape(model: PreTrainedModel, weights: Precision, cache: Precision) -> Shape:
    size = layers.sizes(model)
    kind = _KINDS[model.get_input_embeddings().get_parameter("weight").dtype]
    return Shape(
        **{name: value for name, value in size._asdict().items() if name != "windows_L"},
        weights_kind=kind,
        layers_kind=_INT8 if weights == "int8" else kind,
        cache_kind=_INT8 if cache == "int8" else kind,
        rope_scale=layers.rope_scale(model),
    )


def _columns(work: Sequence[Work]) -> tuple[ctypes.Array[ctypes.c_int64], ctypes.Array[ctypes.c_int64]]:
    """Branches, and how many tokens each gets."""
    numbers = ctypes.c_int64 * len(work)
    return numbers(*(one.branch for one in work)), numbers(*(len(one.token_ids) for one in work))


def _linear(module: nn.Module, kept: list[Tensor]) -> Linear:
    """Point at a layer's weights; what was made for this is kept alive in `kept`."""
    base = layers.base_of(module)

    def at(tensor: Tensor | None) -> int | None:
        if tensor is None:
            return None
        kept.append(tensor.detach().contiguous())
        return kept[-1].data_ptr()

    adapter = module if isinstance(module, LoraLinear) and not module.is_merged else None
    return Linear(
        weight=at(base.weight),
        bias=at(base.bias),
        down=at(adapter.down.float()) if adapter else None,
        up=at(adapter.up.float()) if adapter else None,
        rows=base.out_features,
        columns=base.in_features,
        rank=len(adapter.down) if adapter else 0,
        scale=adapter.scale if adapter else 0.0,
        is_bf16=base.weight.dtype == torch.bfloat16,
    )


def _matrix(weight_O_I: Tensor) -> Linear:
    """Point at a float32 matrix, which must outlive the call."""
    return Linear(weight=weight_O_I.data_ptr(), rows=len(weight_O_I), columns=weight_O_I.shape[1])


def _joined(group: layers.Group, lows: Mapping[str, LowRank]) -> tuple[Tensor, list[Tensor]]:
    """One A for a matrix of several layers, theirs one below the other, and a B for each that reads its own part.

    Ranks are filled up with zeros to what the products take at once; B is scaled.
    """
    ranks = {name: -(-len(low.down_R_I) // _RANKS) * _RANKS for name, low in lows.items()}
    down_R_I = torch.zeros(sum(ranks.values()), next(iter(lows.values())).down_R_I.shape[1])
    ups = {name: torch.zeros(layers.base_of(one).out_features, len(down_R_I)) for name, one in group.linears.items()}
    at = 0
    for name, low in lows.items():
        rank = len(low.down_R_I)
        down_R_I[at : at + rank] = low.down_R_I
        ups[name][:, at : at + rank] = low.up_O_R * low.scale
        at += ranks[name]
    return down_R_I, list(ups.values())
