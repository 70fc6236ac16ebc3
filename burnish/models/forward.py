"""Forward over one packed row: token ids to hidden states to log-probabilities.

The head is applied only where it is asked for, by `fused_head`. Layers may be run again in the backward pass instead
of keeping what they computed (`checkpoint_activations`, https://arxiv.org/abs/1604.06174).
"""

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from burnish.core.errors import ConfigError
from burnish.models import fused_head
from burnish.models.attention import IMPLEMENTATION, Block, Layout, PackedLayout, Span


class TokenStats(NamedTuple):
    """Per token: its log-probability and the entropy of its distribution (nats)."""

    logprobs_N: Tensor
    entropies_N: Tensor
    top: fused_head.TopTokens | None = None
    """Several tokens a place: those that were given, or the likeliest, with their log-probabilities."""


def hidden_states(model: PreTrainedModel, token_ids_T: Tensor, positions_T: Tensor, layout: Layout) -> Tensor:
    """Run the model's body over one packed row; returns `[T, width]`."""
    body = model.base_model
    out = body(input_ids=token_ids_T[None], position_ids=positions_T[None], use_cache=False, layout=layout)
    return out.last_hidden_state[0]


def head_of(model: PreTrainedModel, temperature: float = 1.0) -> fused_head.Head:
    """The model's head as tensors and numbers."""
    layer = model.get_output_embeddings()
    assert layer is not None
    return fused_head.Head(
        weight_V_D=layer.weight,
        bias_V=layer.bias if isinstance(layer, nn.Linear) else None,
        cap=model.config.to_dict().get("final_logit_softcapping"),
        temperature=temperature,
    )


def logits(model: PreTrainedModel, hidden_N_D: Tensor) -> Tensor:
    """Apply the head; returns float32 `[N, vocabulary]`."""
    return fused_head.logits(head_of(model), hidden_N_D)


def token_stats(
    model: PreTrainedModel, hidden_N_D: Tensor, target_ids_N: Tensor, temperature: float = 1.0,
    top: Tensor | int | None = None,
) -> TokenStats:  # fmt: skip
    """Log-probability of each target under softmax(logits / temperature); `top` is ids or how many to find."""
    head = head_of(model, temperature)
    if not isinstance(top, Tensor):
        stats = fused_head.head_stats(head, hidden_N_D, target_ids_N[:, None])
        found = None if top is None else fused_head.top_tokens(head, hidden_N_D, top)
        return TokenStats(stats.logprobs_N_K[:, 0].clone(), stats.entropies_N, found)  # hooks hang on it: no view
    stats = fused_head.head_stats(head, hidden_N_D, torch.cat([target_ids_N[:, None], top], -1))
    given = fused_head.TopTokens(top, stats.logprobs_N_K[:, 1:].clone())
    return TokenStats(stats.logprobs_N_K[:, 0].clone(), stats.entropies_N, given)


class PackedForward(nn.Module):
    """A model from token ids to statistics of chosen tokens, as one module, which a sharder can wrap."""

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, token_ids_T: Tensor, positions_T: Tensor, layout: Layout, predictor_N: Tensor, target_ids_N: Tensor,
        temperature: float, top: Tensor | int | None = None,
    ) -> TokenStats:  # fmt: skip
        """Statistics of each target, which is predicted from its predictor's place; `top` is as in `token_stats`."""
        device = self.model.device
        hidden_T_D = hidden_states(self.model, token_ids_T.to(device), positions_T.to(device), layout)
        top = top.to(device) if isinstance(top, Tensor) else top
        return token_stats(self.model, hidden_T_D[predictor_N.to(device)], target_ids_N.to(device), temperature, top)


def checkpoint_activations(model: PreTrainedModel) -> None:
    """Let each layer keep its input alone for the backward pass, and run again there."""
    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers:
        raise ConfigError(
            f"model type {model.config.model_type!r} cannot run its layers again; "
            "set learner.checkpoint_activations to false"
        )
    run_again = partial(checkpoint, use_reentrant=False)
    for layer in layers:
        layer.gradient_checkpointing = True
        layer._gradient_checkpointing_func = run_again  # pyright: ignore[reportArgumentType]  # it is no module
        layer.training = True  # of the layer alone, which asks for it; dropout below it stays off


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
