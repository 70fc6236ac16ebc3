"""Stand-ins that tests share: tiny models of several architectures, an engine that says what it is told."""

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from burnish.chat.template import Chat
from burnish.core.types import Completion
from burnish.engine.types import Finished, Request
from burnish.models.attention import IMPLEMENTATION
from burnish.models.load import Loaded, load
from burnish.models.tiny import tiny_tokenizer

_SHAPE: dict[str, Any] = {
    "vocab_size": 259,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "initializer_range": 0.3,
    "bos_token_id": None,
    "eos_token_id": 258,
    "pad_token_id": 256,
}
ARCHITECTURES: dict[str, Callable[[], tuple[type[PreTrainedModel], Any]]] = {
    "llama": lambda: (LlamaForCausalLM, LlamaConfig(**_SHAPE)),
    "qwen3": lambda: (Qwen3ForCausalLM, Qwen3Config(**_SHAPE, tie_word_embeddings=True)),
    # Every second layer sees 7 tokens back: less than any sequence that the tests use.
    "gemma3": lambda: (
        Gemma3ForCausalLM,
        Gemma3TextConfig(
            **_SHAPE,
            sliding_window=7,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"],
            query_pre_attn_scalar=16,
        ),
    ),
}


def random_model(architecture: str, seed: int = 0) -> PreTrainedModel:
    """A random float32 model with our attention and the byte tokenizer's vocabulary."""
    model_class, config = ARCHITECTURES[architecture]()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = model_class(config).eval().requires_grad_(False)
    model.set_attn_implementation(IMPLEMENTATION)
    return model


def plain_copy(model: PreTrainedModel) -> PreTrainedModel:
    """The same weights with transformers' own attention."""
    twin = copy.deepcopy(model)
    twin.set_attn_implementation("eager")
    return twin


def tiny_loaded() -> Loaded:
    """A fresh tiny model in float32 with our attention."""
    return load("tiny")


def tiny_chat() -> Chat:
    """The byte tokenizer's chat."""
    return Chat(tiny_tokenizer())


class ScriptedEngine:
    """An engine that replies from a script: `reply(prompt_text, sample)` for each sample, each token at logprob -1."""

    def __init__(self, chat: Chat, reply: Callable[[str, int], str], version: Callable[[], int] = lambda: 0) -> None:
        self._chat, self._reply, self._version = chat, reply, version
        self.requests: list[Request] = []

    @property
    def version(self) -> int:
        """See `Engine`."""
        return self._version()

    def sample(self, requests: Sequence[Request]) -> Iterator[Finished]:
        """See `Engine`; replies end with a stop token and are never cut."""
        self.requests.extend(requests)
        for index, request in enumerate(requests):
            for sample in range(request.num_samples):
                text = self._reply(self._chat.decode(request.prompt_ids), sample)
                yield Finished(index, sample, self._completion(text))

    def _completion(self, text: str) -> Completion:
        token_ids = self._chat.reply_ids(text)
        return Completion(
            token_ids=token_ids,
            logprobs=(-1.0,) * len(token_ids),
            text=text,
            stop_reason="eos",
            policy_version=self.version,
        )
