"""Forward over one packed row: token ids to hidden states to log-probabilities.

The head is applied only where it is asked for, in chunks that are recomputed in the backward pass,
so that logits of all tokens times the vocabulary never exist at once.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from burnish.core.errors import ConfigError
from burnish.models.attention import IMPLEMENTATION, Block, Layout, PackedLayout, Span

_CHUNK_ROWS = 512


class TokenStats(NamedTuple):
    """Per token: its log-probability and the entropy of its distribution (nats, no gradient)."""

    logprobs_N: Tensor
    entropies_N: Tensor


def hidden_states(model: PreTrainedModel, token_ids_T: Tensor, positions_T: Tensor, layout: Layout) -> Tensor:
    """Run the model's body over one packed row; returns `[T, width]`."""
    body = model.base_model
    out = body(input_ids=token_ids_T[None], position_ids=positions_T[None], use_cache=False, layout=layout)
    return out.last_hidden_state[0]


def logits(model: PreTrainedModel, hidden_N_D: Tensor) -> Tensor:
    """Apply the head; returns float32 `[N, vocabulary]`."""
    head = model.get_output_embeddings()
    assert head is not None
    logits_N_V = head(hidden_N_D).float()
    cap = model.config.to_dict().get("final_logit_softcapping")
    return logits_N_V if cap is None else torch.tanh(logits_N_V / cap) * cap


def token_stats(
    model: PreTrainedModel, hidden_N_D: Tensor, target_ids_N: Tensor, temperature: float = 1.0
) -> TokenStats:
    """Log-probability of each target under softmax(logits / temperature)."""

    def chunk(hidden_C_D: Tensor, target_ids_C: Tensor) -> tuple[Tensor, Tensor]:
        logprobs_C_V = torch.log_softmax(logits(model, hidden_C_D) / temperature, dim=-1)
        with torch.no_grad():
            entropies_C = -(logprobs_C_V.exp() * logprobs_C_V).sum(-1)
        return logprobs_C_V.gather(-1, target_ids_C[:, None])[:, 0], entropies_C

    pieces = [
        checkpoint(chunk, hidden_C_D, target_ids_C, use_reentrant=False)
        for hidden_C_D, target_ids_C in zip(hidden_N_D.split(_CHUNK_ROWS), target_ids_N.split(_CHUNK_ROWS), strict=True)
    ]
    return TokenStats(torch.cat([p[0] for p in pieces]), torch.cat([p[1] for p in pieces]))


@torch.no_grad()
def check_forward(model: PreTrainedModel, tolerance: float) -> None:
    """Prove on a few tokens that our forward is the model's own; `ConfigError` if not.

    It catches architectures with a scaled head, soft-capping or a mask that we do not know. The gap is an
    expectation, because in bfloat16 the log-probabilities of improbable tokens differ by whole nats between any
    two implementations.
    """
    vocabulary: int = model.config.get_text_config().vocab_size
    token_ids_T = ((torch.arange(12) * 7919 + 1000) % vocabulary).to(model.device)
    layout = PackedLayout([Block(Span(0, 8), (Span(8, 4),))])
    positions_T = torch.arange(12, device=model.device)
    ours_T_V = logits(model, hidden_states(model, token_ids_T, positions_T, layout)).log_softmax(-1)
    model.set_attn_implementation("eager")
    theirs_T_V = model(input_ids=token_ids_T[None], use_cache=False).logits[0].float().log_softmax(-1)
    model.set_attn_implementation(IMPLEMENTATION)
    gap = (theirs_T_V.exp() * (ours_T_V - theirs_T_V).abs()).sum(-1).max().item()
    if not gap <= tolerance:
        raise ConfigError(
            f"model type {model.config.model_type!r} is not supported: our packed forward differs from its own "
            f"by {gap:.3g} nats, expected at most {tolerance:.3g}"
        )
