"""The contract of an engine. No torch here."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

from burnish.core.errors import BurnishError, ConfigError
from burnish.core.types import Completion
from burnish.engine.params import SamplingParams


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One prompt and how many samples of it; sample i draws with a generator seeded from (seed, i).

    With `prompt_logprobs`, completions say how probable the prompt's own tokens are, at temperature 1. `adapter`
    names the LoRA adapter to sample with, one that the engine was given; None is the policy itself.
    """

    prompt_ids: tuple[int, ...]
    seed: int
    num_samples: int = 1
    params: SamplingParams = field(default_factory=SamplingParams)
    prompt_logprobs: bool = False
    adapter: str | None = None

    def __post_init__(self) -> None:
        if self.num_samples < 1:
            raise ConfigError(f"a request asks for {self.num_samples} samples; num_samples is 1 or more")


class Sampled(NamedTuple):
    """One more token of sample number `sample` of request number `request`."""

    request: int
    sample: int
    token_id: int
    logprob: float


class Finished(NamedTuple):
    """Sample number `sample` of request number `request` is complete."""

    request: int
    sample: int
    completion: Completion


class Failed(NamedTuple):
    """A sample cannot go on, and has ended without a completion."""

    request: int
    sample: int
    error: BurnishError


Event = Sampled | Finished | Failed


class QueueFull(BurnishError):
    """An engine takes no more requests for now: finish some, or send this one elsewhere."""


class Engine(Protocol):
    """Samples from the policy. The same requests in the same order give the same samples."""

    @property
    def version(self) -> int:
        """The version of the weights that the next token will be sampled with."""
        ...

    def sample(self, requests: Sequence[Request]) -> Iterator[Finished]:
        """Sample all requests; yield each sample as soon as it is finished."""
        ...


@runtime_checkable
class LiveEngine(Engine, Protocol):
    """An engine that takes requests while it runs, a step at a time: for chat and serving."""

    @property
    def num_waiting(self) -> int:
        """How many requests were submitted and have not begun."""
        ...

    def submit(self, request: Request) -> int:
        """Queue a request and return its number; `QueueFull` where too many wait, `ConfigError` if it cannot run."""
        ...

    def cancel(self, number: int) -> None:
        """Stop all of a request's samples that are not finished; no events of them follow."""
        ...

    def step(self) -> list[Event]:
        """Go on by one forward; returns what happened, in order, and nothing if there is nothing to do."""
        ...
