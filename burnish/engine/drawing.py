"""Draw the next token of many rows, each by its own parameters and its own number.

Rows of which only the temperature matters are drawn by the decode path in one go. The others go through logits:
shaped row by row, then drawn together with all of equal parameters.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from burnish.engine.params import SamplingParams
from burnish.engine.rows import Row
from burnish.engine.sampler import draw, top
from burnish.engine.shaping import DeadEnd
from burnish.engine.steps import Steps

_CHUNK = 256


class Drawn(NamedTuple):
    """A row's next token, and the most probable ones where they were asked for."""

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


def draw_rows(steps: Steps, hidden_N_D: Tensor, rows: Sequence[Row]) -> list[Drawn | DeadEnd]:
    """Draw a token for each row from its hidden state; shapers are told of it."""
    drawn: dict[int, Drawn | DeadEnd] = {}
    plain = [index for index, row in enumerate(rows) if row.is_plain]
    if plain:
        drawn.update(zip(plain, _draw_plain(steps, _pick(hidden_N_D, plain), [rows[i] for i in plain]), strict=True))
    shaped = [index for index in range(len(rows)) if index not in drawn]
    if shaped:
        logits_M_V = steps.logits(_pick(hidden_N_D, shaped))
        drawn.update(zip(shaped, _draw_shaped(logits_M_V, [rows[i] for i in shaped]), strict=True))
    return [drawn[index] for index in range(len(rows))]


def logprobs_of(steps: Steps, hidden_T_D: Tensor, token_ids: Sequence[int]) -> list[float]:
    """How probable each token is after its hidden state, at temperature 1."""
    logprobs: list[float] = []
    for start in range(0, len(token_ids), _CHUNK):
        logits_C_V = steps.logits(hidden_T_D[start : start + _CHUNK])
        targets_C = torch.tensor(token_ids[start : start + _CHUNK], device=logits_C_V.device)
        logprobs += logits_C_V.log_softmax(-1).gather(-1, targets_C[:, None])[:, 0].tolist()
    return logprobs


def _pick(hidden_N_D: Tensor, indices: Sequence[int]) -> Tensor:
    return hidden_N_D if len(indices) == len(hidden_N_D) else hidden_N_D[torch.tensor(indices)]


def _draw_plain(steps: Steps, hidden_N_D: Tensor, rows: Sequence[Row]) -> Iterator[Drawn]:
    temperatures_N = torch.tensor([row.group.request.params.temperature for row in rows])
    drawn = steps.draw(hidden_N_D, temperatures_N, torch.tensor([row.uniform for row in rows]))
    return map(Drawn, drawn.token_ids_B.tolist(), drawn.logprobs_B.tolist())


def _draw_shaped(logits_N_V: Tensor, rows: Sequence[Row]) -> list[Drawn | DeadEnd]:
    drawn: dict[int, Drawn | DeadEnd] = {}
    kinds: dict[SamplingParams, list[int]] = {}
    for index, row in enumerate(rows):
        fault = _shape(logits_N_V[index], row)
        if fault is not None:
            drawn[index] = fault
        else:
            kinds.setdefault(row.group.request.params, []).append(index)
    for params, members in kinds.items():
        logits_M_V = logits_N_V[torch.tensor(members)]
        drawn.update(zip(members, _draw_kind(logits_M_V, params, [rows[i] for i in members]), strict=True))
    return [drawn[index] for index in range(len(rows))]


def _shape(logits_V: Tensor, row: Row) -> DeadEnd | None:
    try:
        if row.shaper is not None:
            row.shaper.shape(logits_V)
    except DeadEnd as error:
        return error
    return None


def _draw_kind(logits_M_V: Tensor, params: SamplingParams, rows: Sequence[Row]) -> Iterator[Drawn]:
    uniforms_M = torch.tensor([row.uniform for row in rows], device=logits_M_V.device)
    drawn = draw(logits_M_V, params, uniforms_M)
    tops = _tops(logits_M_V, params) if params.top_logprobs else [()] * len(rows)
    for row, token_id, logprob, beside in zip(
        rows, drawn.token_ids_B.tolist(), drawn.logprobs_B.tolist(), tops, strict=True
    ):
        if row.shaper is not None and math.isfinite(logprob):  # else it was not drawn, and the sample fails
            row.shaper.accept(token_id)
        yield Drawn(token_id, logprob, beside)


def _tops(logits_M_V: Tensor, params: SamplingParams) -> list[tuple[tuple[int, float], ...]]:
    found = top(logits_M_V, params)
    pairs = zip(found.token_ids_B_N.tolist(), found.logprobs_B_N.tolist(), strict=True)
    return [tuple((i, value) for i, value in zip(*pair, strict=True) if value > -math.inf) for pair in pairs]
