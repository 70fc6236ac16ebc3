"""Stand-ins that tests share: tiny models of several architectures, an engine and a decode path without a model."""

import copy
import math
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
from burnish.engine.adapters import Adapter
from burnish.engine.sampler import Draw
from burnish.engine.steps import Work
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
            versions=(self.version,) * len(token_ids),
        )


class ScriptedSteps:
    """A decode path without a model: what follows is a checksum of the whole sequence, moved on by the number drawn.

    Room is counted in tokens, each once however many branches hold it. Tokens are 0 to 199: none ends a sample.
    """

    def __init__(self, capacity: int = 1 << 20) -> None:
        self.capacity = capacity
        self.fed: list[list[Work]] = []
        self.num_refreshed = 0
        self._held: dict[int, list[list[int]]] = {}
        self._num_opened = 0

    @property
    def num_stored(self) -> int:
        """How many tokens are stored."""
        return len({id(cell) for cells in self._held.values() for cell in cells})

    @property
    def num_branches(self) -> int:
        """How many branches there are."""
        return len(self._held)

    def open(self, parent: int | None = None, length: int | None = None, *, adapter: str | None = None) -> int:
        """See `Steps`; each token is a cell, which forks share."""
        self._num_opened += 1
        self._held[self._num_opened] = [] if parent is None else self._held[parent][:length]
        return self._num_opened

    def put_adapter(self, name: str, adapter: Adapter) -> None:
        """See `Steps`: it changes nothing here."""

    def drop(self, branch: int) -> None:
        """See `Steps`."""
        del self._held[branch]

    def fits(self, work: Sequence[Work]) -> bool:
        """See `Steps`."""
        return self.num_stored + sum(len(w.token_ids) for w in work) <= self.capacity

    def feed(self, work: Sequence[Work], *, every_token: bool = False) -> torch.Tensor:
        """See `Steps`; a hidden state is the checksum of all up to its token."""
        assert self.fits(work)
        assert len({w.branch for w in work}) == len(work)
        self.fed.append(list(work))
        sums_N: list[int] = []
        for branch, token_ids in work:
            first = len(self._held[branch])
            self._held[branch] += [[token_id] for token_id in token_ids]
            ends = range(first + 1, first + len(token_ids) + 1) if every_token else [first + len(token_ids)]
            sums_N += [_checksum([cell[0] for cell in self._held[branch][:end]]) for end in ends]
        return torch.tensor(sums_N)[:, None]

    def logits(self, hidden_N_D: torch.Tensor) -> torch.Tensor:
        """See `Steps`: the checksum is as probable as all others together."""
        logits_N_V = torch.zeros(len(hidden_N_D), 200)
        logits_N_V[torch.arange(len(hidden_N_D)), hidden_N_D[:, 0] % 200] = math.log(199)
        return logits_N_V

    def draw(self, hidden_N_D: torch.Tensor, temperatures_N: torch.Tensor, uniforms_N: torch.Tensor) -> Draw:
        """See `Steps`."""
        moved_N = (uniforms_N * 200).long() * (temperatures_N > 0)
        return Draw((hidden_N_D[:, 0] + moved_N) % 200, -1.0 - hidden_N_D[:, 0] / 9973)

    def refresh(self) -> None:
        """See `Steps`."""
        self.num_refreshed += 1


def _checksum(token_ids: list[int]) -> int:
    return sum((place + 1) * (token_id + 1) for place, token_id in enumerate(token_ids)) % 9973
