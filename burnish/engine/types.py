"""The contract of an engine. No torch here."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from burnish.core.types import Completion


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How to draw a token. Temperature 0 is greedy (its log-probabilities are of the unscaled softmax).

    Order of the filters: temperature, then top-k, top-p, min-p, each on the renormalised rest.
    `top_k=0`, `top_p=1` and `min_p=0` switch a filter off. A sample ends with the first stop string
    in its text; the tokens that completed it are kept, the text is cut before it.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    max_new_tokens: int = 128
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One prompt and how many samples of it; sample i draws with a generator seeded from (seed, i)."""

    prompt_ids: tuple[int, ...]
    seed: int
    num_samples: int = 1
    params: SamplingParams = field(default_factory=SamplingParams)


class Finished(NamedTuple):
    """Sample number `sample` of request number `request` is complete."""

    request: int
    sample: int
    completion: Completion


class Engine(Protocol):
    """Samples from the policy. The same requests in the same order give the same samples."""

    @property
    def version(self) -> int:
        """The version of the weights that the next token will be sampled with."""
        ...

    def sample(self, requests: Sequence[Request]) -> Iterator[Finished]:
        """Sample all requests; yield each sample as soon as it is finished."""
        ...
