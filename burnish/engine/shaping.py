"""Logits of a row are changed by what it has said, or by a fixed rule, before its token is drawn.

- Repetition penalty: CTRL, https://arxiv.org/abs/1909.05858, section 4.1, which divides the logits of tokens that
  were said. As in transformers, a negative logit is multiplied instead (dividing would reward the token), and the
  prompt's tokens count as said.
- Presence and frequency penalty, as OpenAI's API defines them: `logit[j] -= count[j] * frequency` and
  `logit[j] -= presence` where the count is above 0; only sampled tokens are counted.
- A logit bias is added; tokens that are not allowed, or that break the constraint, get -inf.

Decisions: a row has a shaper of its own, and none where nothing is to be shaped. What is recorded of a shaped row
is of the distribution that it was drawn from; that is not the policy's, so such samples do not train
(`SamplingParams.is_trainable`). A row that no token is left for raises `DeadEnd`.

Covered: logits on any device. Not covered: penalties over a window, n-grams that must not repeat.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from importlib import import_module
from typing import Protocol

import torch
from torch import Tensor

from burnish.chat.template import Chat
from burnish.core.errors import BurnishError, ConfigError
from burnish.engine.params import Constraint, SamplingParams

_MOST_COMPILED = 128


class DeadEnd(BurnishError):
    """A sample has no token left that it may draw."""


class Shaper(Protocol):
    """Changes the logits of one row; remembers what the row has said."""

    def shape(self, logits_V: Tensor) -> None:
        """Change float32 logits in place, before the temperature; `DeadEnd` if no token is left."""
        ...

    def accept(self, token_id: int) -> None:
        """Note the token that was drawn."""
        ...


class Compiled(Protocol):
    """A constraint over a vocabulary."""

    def open(self) -> Shaper:
        """Begin a sample."""
        ...


class Vocabulary:
    """A model's tokens, and the constraints that were compiled over them. `size` is the width of its logits."""

    def __init__(self, chat: Chat, size: int) -> None:
        self.chat, self.size = chat, size
        self._compiled: dict[Constraint, Compiled] = {}

    def compiled(self, constraint: Constraint) -> Compiled:
        """Compile a constraint, once; `ConfigError` says what is wrong with it."""
        if constraint not in self._compiled:
            compiled = self._compile(constraint)
            if len(self._compiled) == _MOST_COMPILED:
                del self._compiled[next(iter(self._compiled))]
            self._compiled[constraint] = compiled
        return self._compiled[constraint]

    @cached_property
    def _compile(self) -> Callable[[Constraint], Compiled]:
        try:
            constraints = import_module("burnish.engine.constraints")
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"a constraint needs the package {error.name}: `pip install burnish[constrain]`"
            ) from None
        return constraints.compiler(self.chat, self.size)


def open_shaper(params: SamplingParams, prompt_ids: Sequence[int], vocabulary: Vocabulary) -> Shaper | None:
    """Open the shaper of one row, or None if its logits stay as they are; `ConfigError` says what does not fit."""
    if not params.is_shaped:
        return None
    _check_tokens(params, vocabulary)
    parts: list[Shaper] = []
    if params.repetition_penalty != 1 or params.presence_penalty or params.frequency_penalty:
        parts.append(_Penalties(params, prompt_ids))
    if params.logit_bias or params.allowed_tokens is not None:
        parts.append(_Fixed(params))
    if params.constraint is not None:
        parts.append(vocabulary.compiled(params.constraint).open())
    return _Chain(parts)


def _check_tokens(params: SamplingParams, vocabulary: Vocabulary) -> None:
    allowed, stop_ids = params.allowed_tokens, sorted(vocabulary.chat.stop_ids)
    for name, token_ids in (("logit_bias", [i for i, _ in params.logit_bias]), ("allowed_tokens", allowed or ())):
        unknown = [token_id for token_id in token_ids if not 0 <= token_id < vocabulary.size]
        if unknown:
            raise ConfigError(
                f"{name} names token {min(unknown)}, which the model has not; its tokens are 0 to {vocabulary.size - 1}"
            )
    if params.constraint is not None and allowed is not None and allowed.isdisjoint(stop_ids):
        raise ConfigError(
            f"a constraint ends a sample with a stop token, and allowed_tokens has none; add {stop_ids[0]}"
        )


class _Chain:
    """All that shapes a row, in order."""

    def __init__(self, parts: Sequence[Shaper]) -> None:
        self._parts = parts
        self._num_accepted = 0

    def shape(self, logits_V: Tensor) -> None:
        for part in self._parts:
            part.shape(logits_V)
        if logits_V.max() == -torch.inf:
            raise DeadEnd(
                f"after {self._num_accepted} tokens, no token is both allowed and able to continue the sample; "
                "allow more tokens, or loosen the constraint"
            )

    def accept(self, token_id: int) -> None:
        self._num_accepted += 1
        for part in self._parts:
            part.accept(token_id)


class _Penalties:
    """What was said becomes less probable: the ids that were, and how often each was sampled."""

    def __init__(self, params: SamplingParams, prompt_ids: Sequence[int]) -> None:
        self._params = params
        self._place = {token_id: place for place, token_id in enumerate(dict.fromkeys(prompt_ids))}
        self._ids_N = torch.tensor(list(self._place), dtype=torch.long)
        self._counts_N = torch.zeros(len(self._place))

    def shape(self, logits_V: Tensor) -> None:
        p = self._params
        ids_N, counts_N = self._ids_N.to(logits_V.device), self._counts_N.to(logits_V.device)
        said_N = logits_V[ids_N]
        said_N = torch.where(said_N > 0, said_N / p.repetition_penalty, said_N * p.repetition_penalty)
        logits_V[ids_N] = said_N - p.frequency_penalty * counts_N - p.presence_penalty * (counts_N > 0)

    def accept(self, token_id: int) -> None:
        place = self._place.setdefault(token_id, len(self._place))
        if place == len(self._ids_N):
            self._ids_N = torch.cat([self._ids_N, torch.tensor([token_id])])
            self._counts_N = torch.cat([self._counts_N, torch.zeros(1)])
        self._counts_N[place] += 1


class _Fixed:
    """The same tokens at each step: a bias, and a set that is allowed."""

    def __init__(self, params: SamplingParams) -> None:
        self._bias_ids = torch.tensor([token_id for token_id, _ in params.logit_bias], dtype=torch.long)
        self._bias_N = torch.tensor([bias for _, bias in params.logit_bias], dtype=torch.float32)
        self._allowed = None if params.allowed_tokens is None else torch.tensor(sorted(params.allowed_tokens))

    def shape(self, logits_V: Tensor) -> None:
        logits_V.index_add_(0, self._bias_ids.to(logits_V.device), self._bias_N.to(logits_V.device))
        if self._allowed is not None:
            allowed_N = self._allowed.to(logits_V.device)
            kept_N = logits_V[allowed_N]
            logits_V.fill_(-torch.inf)
            logits_V[allowed_N] = kept_N

    def accept(self, token_id: int) -> None:
        pass
