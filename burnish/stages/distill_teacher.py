"""The teacher of stage `distill`: a second model in this process, or an endpoint that scores given tokens.

Token ids must mean the same to both: the tokenizers' vocabularies are compared, entry by entry. Of an endpoint that
cannot be asked, so the recipe names the model behind it (`teacher`), and its tokenizer is what is compared.
Covered: log-probabilities of given tokens from either, whole distributions from a model in this process.
Not covered: two vocabularies, teachers on several devices.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from burnish.core.errors import ConfigError
from burnish.engine.endpoint import Endpoint, EndpointConfig
from burnish.learner.distil import score
from burnish.learner.packing import Row
from burnish.models.forward import head_of


class Teacher(Protocol):
    """What says how probable a student's tokens are."""

    def logprobs(self, rows: Sequence[Row]) -> list[Tensor]:
        """The log-probability of each trained token of each row."""
        ...


class ModelTeacher:
    """A model in this process, at the student's temperature."""

    def __init__(self, model: PreTrainedModel, *, temperature: float, max_pack_tokens: int) -> None:
        self.model = model
        self._temperature, self._max_pack_tokens = temperature, max_pack_tokens

    def logprobs(self, rows: Sequence[Row]) -> list[Tensor]:
        """See `Teacher`."""
        return score(self.model, rows, self._temperature, self._max_pack_tokens)


class EndpointTeacher:
    """A server that scores tokens, at temperature 1; rows are asked for side by side."""

    def __init__(self, config: EndpointConfig) -> None:
        self._endpoint, self._most_at_once = Endpoint(config), config.most_at_once

    def logprobs(self, rows: Sequence[Row]) -> list[Tensor]:
        """See `Teacher`."""
        with ThreadPoolExecutor(self._most_at_once) as pool:
            return list(pool.map(self._of_row, rows))

    def _of_row(self, row: Row) -> Tensor:
        scored = self._endpoint.score(row.prompt, row.token_ids[row.prompt_length :])
        chosen = zip(scored, row.was_sampled[row.prompt_length :], strict=True)
        return torch.tensor([logprob for logprob, was_sampled in chosen if was_sampled])


def check_heads(student: PreTrainedModel, teacher: PreTrainedModel, name: str) -> None:
    """`ConfigError` unless whole distributions of both have equally many entries."""
    ours, theirs = (len(head_of(model).weight_V_D) for model in (student, teacher))
    if ours != theirs:
        raise ConfigError(
            f"teacher {name!r} has a head of {theirs} tokens and the student one of {ours}: they are padded otherwise; "
            "take objective 'opd', which compares sampled tokens alone"
        )


def check_vocabulary(student: PreTrainedTokenizerBase, teacher: PreTrainedTokenizerBase, name: str) -> None:
    """`ConfigError` unless each token has the same id for both."""
    ours, theirs = student.get_vocab(), teacher.get_vocab()
    differing = sorted(token for token in ours.keys() | theirs.keys() if ours.get(token) != theirs.get(token))
    if differing:
        raise ConfigError(
            f"teacher {name!r} has another vocabulary than the student: {len(differing)} tokens differ, for example "
            f"{differing[0]!r} is {theirs.get(differing[0])} and not {ours.get(differing[0])}; distillation compares "
            "token by token, so choose a teacher of the student's family"
        )
