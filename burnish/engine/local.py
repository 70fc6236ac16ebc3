"""The engine in this process: samples with the very weights that the learner trains, in waves.

Requests are taken in order into waves of at most `max_rows` samples; a request with more samples is split. A wave
runs its distinct prompts once, packed, then decodes all its samples in lock-step, one packed row of one token
each. Finished rows are dropped when they are an eighth of the rows. No keys or values outlive a wave.

Decisions: a sampled stop token is kept; a completion carries the version of the weights at its wave's start; the
draw of a row depends on its seed and its logits alone, so in exact arithmetic the batch does not matter (matrix
products of another size may round otherwise).

Covered: any model that `models.load` accepts, greedy and filtered sampling, stop strings, mixed parameters in one
call. Not covered: refilling a wave that has begun, prompts beyond the model's context (refused), several processes.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel

from burnish.chat.template import Chat
from burnish.core.errors import ConfigError
from burnish.core.seeds import derive
from burnish.core.types import Completion, StopReason
from burnish.engine.kv import DecodeLayout, PrefillLayout
from burnish.engine.sampler import draw
from burnish.engine.types import Engine, Finished, Request, SamplingParams
from burnish.models.forward import hidden_states, logits

_PREFILL_TOKENS = 2048
_DROP_FRACTION = 8  # rows are dropped once one in so many is finished


@dataclass(slots=True, kw_only=True)
class _Row:
    """A sample being decoded."""

    request: int
    sample: int
    prompt_ids: tuple[int, ...]
    params: SamplingParams
    uniforms_T: Tensor
    token_ids: list[int] = field(default_factory=list[int])
    logprobs: list[float] = field(default_factory=list[float])
    is_finished: bool = False


class _Start(NamedTuple):
    """A wave after its prompts: the cache, and each row's hidden state at its last prompt token."""

    layout: DecodeLayout
    hidden_B_D: Tensor


def open_engine(model: PreTrainedModel, chat: Chat, *, max_rows: int, version: Callable[[], int]) -> Engine:
    """Open an engine over live weights; `version` says which they are."""
    return LocalEngine(model, chat, max_rows=max_rows, version=version)


class LocalEngine:
    """See the module's docstring."""

    def __init__(self, model: PreTrainedModel, chat: Chat, *, max_rows: int, version: Callable[[], int]) -> None:
        self._model, self._chat, self._max_rows, self._version = model, chat, max_rows, version

    @property
    def version(self) -> int:
        """See `Engine`."""
        return self._version()

    def sample(self, requests: Sequence[Request]) -> Iterator[Finished]:
        """See `Engine`."""
        limit: int | None = self._model.config.to_dict().get("max_position_embeddings")
        for request in requests:
            _check(request, limit)
        for wave in _waves(requests, self._max_rows):
            yield from self._run(wave)

    def _run(self, rows: list[_Row]) -> Iterator[Finished]:
        version = self.version
        layout, hidden_B_D = _prefill(self._model, rows)
        while True:
            last_ids_B = _draw_all(self._model, hidden_B_D, rows)
            for row in rows:
                reason = None if row.is_finished else _stop_reason(row, self._chat)
                if reason is not None:
                    row.is_finished = True
                    yield Finished(row.request, row.sample, _complete(row, self._chat, reason, version))
            live = [index for index, row in enumerate(rows) if not row.is_finished]
            if not live:
                return
            if (len(rows) - len(live)) * _DROP_FRACTION >= len(rows):
                layout.keep(live)
                last_ids_B = last_ids_B[live]
                rows = [rows[index] for index in live]
            hidden_B_D = _decode(self._model, layout, last_ids_B)


def _check(request: Request, limit: int | None) -> None:
    needed = len(request.prompt_ids) + request.params.max_new_tokens
    if not request.prompt_ids:
        raise ConfigError("a request has an empty prompt; it needs at least one token")
    if limit is not None and needed > limit:
        raise ConfigError(
            f"prompt of {len(request.prompt_ids)} tokens and max_new_tokens {request.params.max_new_tokens} exceed "
            f"the model's context of {limit}; shorten the prompt or lower max_new_tokens"
        )


def _waves(requests: Sequence[Request], max_rows: int) -> Iterator[list[_Row]]:
    wave: list[_Row] = []
    for index, request in enumerate(requests):
        rows = [_new_row(request, index, sample) for sample in range(request.num_samples)]
        if wave and len(wave) + len(rows) > max_rows:
            yield wave
            wave = []
        while len(rows) > max_rows:
            yield rows[:max_rows]
            rows = rows[max_rows:]
        wave += rows
    if wave:
        yield wave


def _new_row(request: Request, index: int, sample: int) -> _Row:
    generator = torch.Generator().manual_seed(derive(request.seed, sample))
    return _Row(
        request=index,
        sample=sample,
        prompt_ids=request.prompt_ids,
        params=request.params,
        uniforms_T=torch.rand(request.params.max_new_tokens, generator=generator),
    )


@torch.inference_mode()
def _prefill(model: PreTrainedModel, rows: Sequence[_Row]) -> _Start:
    prompts = list(dict.fromkeys(row.prompt_ids for row in rows))
    longest = max(map(len, prompts))
    parts: list[PrefillLayout] = []
    hidden_P_D: list[Tensor] = []
    for pack in _packs(prompts):
        lengths = [len(prompt) for prompt in pack]
        parts.append(PrefillLayout(lengths, longest))
        token_ids_T = torch.tensor([i for prompt in pack for i in prompt], device=model.device)
        positions_T = torch.cat([torch.arange(n) for n in lengths]).to(model.device)
        hidden_T_D = hidden_states(model, token_ids_T, positions_T, parts[-1])
        hidden_P_D.append(hidden_T_D[torch.tensor(lengths).cumsum(0) - 1])
    number = {prompt: index for index, prompt in enumerate(prompts)}
    prompt_of_row = [number[row.prompt_ids] for row in rows]
    layout = DecodeLayout(
        [torch.cat(keys) for keys in zip(*(part.keys_L for part in parts), strict=True)],
        [torch.cat(values) for values in zip(*(part.values_L for part in parts), strict=True)],
        [len(prompt) for prompt in prompts],
        prompt_of_row,
    )
    return _Start(layout, torch.cat(hidden_P_D)[prompt_of_row])


def _packs(prompts: Sequence[tuple[int, ...]]) -> Iterator[Sequence[tuple[int, ...]]]:
    """Cut into packs of at most `_PREFILL_TOKENS` tokens, or of one longer prompt."""
    cuts, total = [0], 0
    for index, prompt in enumerate(prompts):
        total += len(prompt)
        if total > _PREFILL_TOKENS and index > cuts[-1]:
            cuts.append(index)
            total = len(prompt)
    return (prompts[a:b] for a, b in pairwise([*cuts, len(prompts)]))


@torch.inference_mode()
def _decode(model: PreTrainedModel, layout: DecodeLayout, token_ids_B: Tensor) -> Tensor:
    positions_B = layout.begin_token()
    return hidden_states(model, token_ids_B, positions_B, layout)


@torch.inference_mode()
def _draw_all(model: PreTrainedModel, hidden_B_D: Tensor, rows: Sequence[_Row]) -> Tensor:
    """Draw a token for each row and note it; rows of one kind of parameters are drawn together."""
    logits_B_V = logits(model, hidden_B_D)
    kinds: dict[SamplingParams, list[int]] = {}
    for index, row in enumerate(rows):
        kinds.setdefault(row.params, []).append(index)
    token_ids_B = torch.empty(len(rows), dtype=torch.long, device=logits_B_V.device)
    for params, members in kinds.items():
        uniforms = [_uniform(rows[index]) for index in members]
        chosen_B_V = logits_B_V if len(kinds) == 1 else logits_B_V[members]
        drawn = draw(chosen_B_V, params, torch.tensor(uniforms, device=logits_B_V.device))
        token_ids_B[members] = drawn.token_ids_B
        for index, token_id, logprob in zip(
            members, drawn.token_ids_B.tolist(), drawn.logprobs_B.tolist(), strict=True
        ):
            rows[index].token_ids.append(token_id)
            rows[index].logprobs.append(logprob)
    return token_ids_B


def _uniform(row: _Row) -> float:
    step = len(row.token_ids)
    return row.uniforms_T[step].item() if step < len(row.uniforms_T) else 0.0


def _stop_reason(row: _Row, chat: Chat) -> StopReason | None:
    if row.token_ids[-1] in chat.stop_ids:
        return "eos"
    if row.params.stop and _ends_with_stop(row, chat):
        return "stop_string"
    return "length" if len(row.token_ids) >= row.params.max_new_tokens else None


def _ends_with_stop(row: _Row, chat: Chat) -> bool:
    """Whether the last token completed a stop string: only as many tokens as one can span are decoded."""
    span = max(len(stop.encode()) for stop in row.params.stop) + 4
    tail = chat.decode(row.token_ids[-span:])
    return any(stop in tail for stop in row.params.stop)


def _complete(row: _Row, chat: Chat, reason: StopReason, version: int) -> Completion:
    text = chat.decode(row.token_ids)
    if reason == "stop_string":
        text = text[: min(at for stop in row.params.stop if (at := text.find(stop)) >= 0)]
    return Completion(
        token_ids=tuple(row.token_ids),
        logprobs=tuple(row.logprobs),
        text=text,
        stop_reason=reason,
        policy_version=version,
    )
