"""Two proofs on one prompt: a server's log-probabilities are of what it samples from, and its weights are ours.

**Processed.** Log-probabilities of softmax(logits / T) differ between two tokens by the difference of their logits
over T. So at temperature 0.5 the gap between two likely tokens must be twice that at temperature 1, whatever the
normaliser. A server that reports raw log-probabilities shows the same gap at both, and importance ratios made of them
are wrong from the first step on.

**Weights.** The likeliest tokens after the prompt must be about as likely as in the live model. It finds another
model, weights that did not arrive and an adapter that is not applied; it does not find the step of one small update.
"""

import torch
from transformers import PreTrainedModel

from burnish.chat.template import Chat
from burnish.core.errors import ConfigError, EngineError
from burnish.core.types import Message
from burnish.engine.wire import Wire
from burnish.models.attention import Block, PackedLayout, Span
from burnish.models.forward import hidden_states, logits

_SHARP = 0.5
_SMALLEST_GAP = 0.02
_MOST_OFF = 0.1

_QUESTION = (Message(role="user", content="Name a colour."),)


def prove_processed(wire: Wire, chat: Chat, label: str = "") -> None:
    """`ConfigError` unless log-probabilities at temperature 0.5 differ from those at 1 as they should."""
    prompt_ids = chat.prompt_ids(_QUESTION)
    plain = wire.most_likely(prompt_ids, 1.0, label)
    sharp = wire.most_likely(prompt_ids, _SHARP, label)
    common = sorted(plain.keys() & sharp.keys(), key=lambda token_id: plain[token_id])
    gap = plain[common[-1]] - plain[common[0]] if len(common) > 1 else 0.0
    if gap < _SMALLEST_GAP:
        raise EngineError(
            f"the server's likeliest tokens are {plain} and {sharp} at temperatures 1 and {_SHARP}: they are too "
            "even to tell whether the temperature is applied; is the model untrained?"
        )
    ratio = (sharp[common[-1]] - sharp[common[0]]) / gap
    if abs(ratio * _SHARP - 1) > _MOST_OFF:
        raise ConfigError(
            f"the server's log-probabilities at temperature {_SHARP} are not those that it samples from: gaps between "
            f"tokens are {ratio:.2f} times those at temperature 1, expected {1 / _SHARP:.2f}; "
            "start vLLM with --logprobs-mode processed_logprobs, SGLang without SGLANG_RETURN_ORIGINAL_LOGPROB"
        )


def prove_weights(wire: Wire, chat: Chat, model: PreTrainedModel, tolerance: float, label: str) -> None:
    """`EngineError` unless the server's likeliest tokens are about as likely in the live model."""
    prompt_ids = chat.prompt_ids(_QUESTION)
    theirs = wire.most_likely(prompt_ids, 1.0, label)
    ours_V = _next_logprobs(model, prompt_ids)
    if max(theirs) >= len(ours_V):
        raise EngineError(f"the server knows a token {max(theirs)}, our vocabulary ends at {len(ours_V) - 1}")
    gap = max(abs(value - ours_V[token_id].item()) for token_id, value in theirs.items())
    if not gap <= tolerance:
        raise EngineError(
            f"the server samples from other weights than the learner trains: its likeliest tokens are off by "
            f"{gap:.3f} nats, allowed are {tolerance}; is it the same model, in the same precision, and did the "
            "last update reach it?"
        )


@torch.inference_mode()
def _next_logprobs(model: PreTrainedModel, prompt_ids: tuple[int, ...]) -> torch.Tensor:
    token_ids_T = torch.tensor(prompt_ids, device=model.device)
    positions_T = torch.arange(len(prompt_ids), device=model.device)
    layout = PackedLayout([Block(Span(0, len(prompt_ids)))])
    return logits(model, hidden_states(model, token_ids_T, positions_T, layout)[-1:])[0].log_softmax(-1)
