"""Supervised fine-tuning: cross entropy of the demonstrated tokens.

As in GPT, https://cdn.openai.com/research-covers/language-unsupervised/language_understanding_paper.pdf,
eq. 1, on the tokens that train alone (a prompt has no stream entries). Advantages are not read.
Aggregation: `token_mean`. Not covered: label smoothing, which needs the whole vocabulary.
"""

from dataclasses import dataclass

from burnish.objectives import Loss, Streams, ops
from burnish.objectives.aggregation import Kind

AGGREGATION: Kind = "token_mean"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """There is nothing to choose."""


def loss(s: Streams, config: Config) -> Loss:
    """Negative log-likelihood, summed over tokens."""
    return Loss(
        total=-(s.new_logprobs_T * s.weights_T).sum(),
        metrics={"surprise": ops.metric(-s.new_logprobs_T, s)},
    )
