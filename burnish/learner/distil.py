"""What distillation asks of models: how probable given tokens are, and how far two whole distributions lie apart.

`score` is the forward that trains, of a model that does not. `divergence_backward` puts student and teacher through the
same packs and differentiates the divergence at each trained token with respect to the student. Distributions over
the vocabulary exist for a chunk of tokens at a time: a chunk's are made, differentiated with respect to the hidden
states and the head, and let go of; the hidden states' gradients then go through the body once.
Not covered: several ranks.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from burnish.learner.packing import Pack, Row, pack
from burnish.learner.policy import Policy
from burnish.models.forward import PackedForward, hidden_states, logits

_CHUNK_TOKENS = 256

Divergence = Callable[[Tensor, Tensor], Tensor]
"""From the student's and the teacher's log-probabilities `[N, vocabulary]` to N numbers."""


@torch.no_grad()
def score(model: PreTrainedModel, rows: Sequence[Row], temperature: float, max_pack_tokens: int) -> list[Tensor]:
    """The log-probability of each trained token of each row."""
    run, scored = PackedForward(model), dict[int, Tensor]()
    for piece in pack(rows, max_pack_tokens):
        stats = run(
            piece.token_ids_T, piece.positions_T, piece.layout, piece.predictor_N, piece.target_ids_N, temperature
        )
        lengths = [rows[index].num_trained for index in piece.row_indices]
        scored.update(zip(piece.row_indices, stats.logprobs_N.split(lengths), strict=True))
    return [scored[index] for index in range(len(rows))]


def divergence_backward(
    policy: Policy, teacher: PreTrainedModel, rows: Sequence[Row], divergence: Divergence, *, temperature: float,
    max_pack_tokens: int,
) -> float:  # fmt: skip
    """Add the gradient of the mean divergence over trained tokens to the policy's masters; return that mean."""
    num_tokens = sum(row.num_trained for row in rows)
    total = 0.0
    for piece in pack(rows, max_pack_tokens):
        hidden_N_D = _predicting(policy.model, piece)
        with torch.no_grad():
            teacher_N_D = _predicting(teacher, piece)
        cut_N_D = hidden_N_D.detach().requires_grad_(True)
        for ours_C_D, theirs_C_D in zip(cut_N_D.split(_CHUNK_TOKENS), teacher_N_D.split(_CHUNK_TOKENS), strict=True):
            with torch.no_grad():
                teacher_C_V = _distribution(teacher, theirs_C_D, temperature)
            part = divergence(_distribution(policy.model, ours_C_D, temperature), teacher_C_V).sum() / num_tokens
            part.backward()
            total += float(part.detach())
        if hidden_N_D.requires_grad:  # not where the head alone trains
            hidden_N_D.backward(cut_N_D.grad)
        policy.weights.take_gradients()
    return total


def _predicting(model: PreTrainedModel, piece: Pack) -> Tensor:
    """The hidden states that trained tokens are predicted from."""
    device = model.device
    hidden_T_D = hidden_states(model, piece.token_ids_T.to(device), piece.positions_T.to(device), piece.layout)
    return hidden_T_D[piece.predictor_N.to(device)]


def _distribution(model: PreTrainedModel, hidden_C_D: Tensor, temperature: float) -> Tensor:
    return (logits(model, hidden_C_D) / temperature).log_softmax(-1)
