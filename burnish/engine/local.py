"""The engine in this process: samples with the very weights that the learner trains, by continuous batching.

`scheduler` decides what is computed next, a decode path (`steps`) computes it: `torch_steps` for any model, or the
native step where it was built and knows the model.

Decisions: a sampled stop token is kept. `sample` begins and ends with nothing kept, so that the same requests in the
same order give the same bits in a resumed run; live use keeps prefixes for the turns that follow. With `exact` the
same request gives the same tokens whatever else is under way.

Covered: greedy and filtered sampling, shaped logits, stop strings, mixed parameters, log-probabilities of prompts,
several adapters. Not covered: prompts beyond the model's context (refused), several processes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple

from pydantic import Field
from transformers import PreTrainedModel

from burnish.chat.template import Chat
from burnish.core.config import Strict, validate
from burnish.core.errors import ConfigError
from burnish.core.types import Json
from burnish.engine.adapters import Adapter
from burnish.engine.native.steps import NativeSteps, reason_why_not
from burnish.engine.scheduler import Limits, Scheduler
from burnish.engine.shaping import Vocabulary, open_shaper
from burnish.engine.steps import Steps
from burnish.engine.torch_steps import TorchSteps
from burnish.engine.types import Event, Failed, Finished, QueueFull, Request
from burnish.models.forward import head_of


class Config(Strict):
    """Options of the engine."""

    path: Literal["auto", "torch", "native"] = "auto"
    """What computes a step; `auto` is native where it was built and knows the model, else torch."""
    exact: bool = False
    """The same request gives the same tokens whatever is sampled beside it; see docs/engine.md for the cost."""
    weights: Literal["auto", "int8"] = "auto"
    """int8 keeps the layers' matrices in 8 bits; only native."""
    cache: Literal["auto", "int8"] = "auto"
    """int8 keeps keys and values in 8 bits; only native."""
    kv_memory_mb: int = Field(2048, ge=1)
    """What keys and values may take; where it is full, samples wait and are computed again."""
    step_tokens: int = Field(1024, ge=64)
    """How many tokens go through the model at once; prompts are cut to what decoding samples leave of it."""
    max_waiting: int = Field(1024, ge=1)
    """How many requests may wait; more are refused."""


def open_engine(
    model: PreTrainedModel, chat: Chat, *, max_rows: int, version: Callable[[], int],
    options: Mapping[str, Json] = MappingProxyType({}),
) -> "LocalEngine":  # fmt: skip
    """Open an engine over live weights; `version` says which they are."""
    config = validate(Config, dict(options), "options of engine 'local'")
    return LocalEngine(model, chat, max_rows=max_rows, version=version, config=config)


class LocalEngine:
    """See the module's docstring, and `burnish.engine.types.LiveEngine`."""

    def __init__(
        self, model: PreTrainedModel, chat: Chat, *, max_rows: int, version: Callable[[], int], config: Config
    ) -> None:
        self._version, self._max_waiting = version, config.max_waiting
        self._adapters: set[str] = set()
        self._is_sampling = False
        self._context: int | None = model.config.to_dict().get("max_position_embeddings")
        self._vocabulary = Vocabulary(chat, len(head_of(model).weight_V_D))
        self._steps, depends_on_cuts = _open_path(model, config)
        self._scheduler = Scheduler(
            self._steps, chat, Limits(max_rows, config.step_tokens),
            version=version, exact=config.exact and depends_on_cuts,
            open_shaper=lambda request: open_shaper(request.params, request.prompt_ids, self._vocabulary),
        )  # fmt: skip

    @property
    def version(self) -> int:
        """See `Engine`."""
        return self._version()

    @property
    def num_waiting(self) -> int:
        """See `LiveEngine`."""
        return self._scheduler.num_waiting

    @property
    def kv_used(self) -> float:
        """The share of the memory for keys and values that samples under way take."""
        return min(1.0, self._scheduler.num_held / self._steps.capacity)

    @property
    def counts(self) -> Mapping[str, int]:
        """What was done so far: `fed_tokens`, `prefix_tokens` (not computed again), `forwards`, `preempted`."""
        return self._scheduler.counts

    def sample(self, requests: Sequence[Request]) -> Iterator[Finished]:
        """See `Engine`."""
        for request in requests:
            self._check(request)
        self._refuse_while_sampling("sample")
        if not self._scheduler.is_idle:
            raise ConfigError("the engine is in live use; finish or cancel what was submitted before `sample`")
        self._scheduler.take_over()
        index_of = {self._scheduler.submit(request): index for index, request in enumerate(requests)}
        self._is_sampling = True
        try:
            while not self._scheduler.is_idle:
                for event in self._scheduler.step():
                    if isinstance(event, Failed):
                        raise event.error
                    if isinstance(event, Finished):
                        yield event._replace(request=index_of[event.request])
        finally:
            for number in index_of:
                self._scheduler.cancel(number)
            self._scheduler.forget()
            self._is_sampling = False

    def submit(self, request: Request) -> int:
        """See `LiveEngine`."""
        self._refuse_while_sampling("submit")
        self._check(request)
        if self.num_waiting >= self._max_waiting:
            raise QueueFull(
                f"{self.num_waiting} requests wait, and max_waiting is {self._max_waiting}; come again later"
            )
        return self._scheduler.submit(request, keeps_samples=True)

    def put_adapter(self, name: str, adapter: Adapter) -> None:
        """Serve a LoRA adapter by name, from the next step on; one of that name is replaced."""
        self._steps.put_adapter(name, adapter)
        self._adapters.add(name)
        self._scheduler.take_over()

    def cancel(self, number: int) -> None:
        """See `LiveEngine`."""
        self._refuse_while_sampling("cancel")
        self._scheduler.cancel(number)

    def step(self) -> list[Event]:
        """See `LiveEngine`."""
        self._refuse_while_sampling("step")
        return self._scheduler.step()

    def _refuse_while_sampling(self, verb: str) -> None:
        if self._is_sampling:
            raise ConfigError(f"`{verb}` while `sample` is under way: take its last sample, or close it, before that")

    def _check(self, request: Request) -> None:
        """`ConfigError` if a request can never be sampled."""
        num_given, num_new = len(request.prompt_ids), request.params.max_new_tokens
        if request.adapter is not None and request.adapter not in self._adapters:
            raise ConfigError(
                f"no adapter {request.adapter!r}; there are: {', '.join(sorted(self._adapters)) or 'none'}"
            )
        if not num_given:
            raise ConfigError("a request has an empty prompt; it needs at least one token")
        unknown = [token_id for token_id in request.prompt_ids if not 0 <= token_id < self._vocabulary.size]
        if unknown:
            raise ConfigError(
                f"a prompt has token {unknown[0]}, which the model has not; its tokens are 0 to "
                f"{self._vocabulary.size - 1}"
            )
        asked = f"prompt of {num_given} tokens and max_new_tokens {num_new} exceed"
        if self._context is not None and num_given + num_new > self._context:
            raise ConfigError(
                f"{asked} the model's context of {self._context}; shorten the prompt or lower max_new_tokens"
            )
        if num_given + num_new > self._steps.capacity:
            raise ConfigError(
                f"{asked} the {self._steps.capacity} tokens that the engine has room for; raise kv_memory_mb"
            )
        open_shaper(request.params, request.prompt_ids, self._vocabulary)


class _Path(NamedTuple):
    """A decode path, and whether a token's bits depend on how the scheduler cuts and joins what it feeds."""

    steps: Steps
    depends_on_cuts: bool


def _open_path(model: PreTrainedModel, config: Config) -> _Path:
    reason = "path is 'torch'" if config.path == "torch" else reason_why_not(model)
    if reason is None:
        return _Path(
            NativeSteps(model, memory_mb=config.kv_memory_mb, weights=config.weights, cache=config.cache), False
        )
    for name, value, unmet in (
        ("path", config.path, config.path == "native"),
        ("weights", config.weights, config.weights != "auto"),
        ("cache", config.cache, config.cache != "auto"),
    ):
        if unmet:
            raise ConfigError(f"engine 'local': {name} = {value!r} needs the native step: {reason}; leave {name} out")
    return _Path(TorchSteps(model, memory_mb=config.kv_memory_mb, exact=config.exact), True)
