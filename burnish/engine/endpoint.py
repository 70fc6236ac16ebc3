"""An OpenAI-compatible chat endpoint, text in and text out: for teachers, judges and evaluation.

`reply` is `POST /v1/chat/completions`; it works with any provider, and what a provider may not know is refused before
it is asked (`extended` says that this one is vLLM or SGLang). `score` says how probable given tokens are to a model
behind vLLM, for distillation: `prompt_logprobs` of `/v1/completions`, at temperature 1.

Calls block, and any number of threads may make them; `most_at_once` of them are under way.
"""

from collections.abc import Sequence
from dataclasses import asdict
from threading import BoundedSemaphore
from typing import NamedTuple

from pydantic import Field

from burnish.core.errors import ConfigError, EngineError
from burnish.core.types import Json, Message
from burnish.engine.http_client import Answer, Client, Lifeline, Server
from burnish.engine.openai_wire import CompletionsWire
from burnish.engine.params import SamplingParams
from burnish.engine.wire import Job, logprobs

_EXTENSIONS = ("top_k", "min_p", "repetition_penalty")


class EndpointConfig(Server):
    """Options of an endpoint."""

    model: str
    most_at_once: int = Field(default=16, ge=1)
    extended: bool = False
    """The endpoint knows vLLM's options as well: top_k, min_p, repetition_penalty."""


class Reply(NamedTuple):
    """What an endpoint said, and the number of tokens that it counted, where it did."""

    text: str
    finish_reason: str
    prompt_tokens: int | None
    reply_tokens: int | None


class _Said(Answer):
    content: str | None = None


class _ChatChoice(Answer):
    message: _Said
    finish_reason: str | None = None


class _Usage(Answer):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _ChatCompletion(Answer):
    choices: list[_ChatChoice] = Field(min_length=1)
    usage: _Usage = _Usage()


class Endpoint:
    """See the module's docstring."""

    def __init__(self, config: EndpointConfig) -> None:
        self._config, self._client = config, Client(config)
        self._tokens = CompletionsWire(self._client, config.model, frozenset(), salts_cache=False)
        self._room = BoundedSemaphore(config.most_at_once)

    def reply(
        self, messages: Sequence[Message], params: SamplingParams, *, seed: int, lifeline: Lifeline | None = None
    ) -> Reply:
        """Ask for one reply; `EngineError` if none comes."""
        body = self._chat_body(messages, params, seed)
        with self._room:
            answer = self._client.post(
                "/v1/chat/completions", body, _ChatCompletion, may_repeat=True, lifeline=lifeline
            )
        choice = answer.choices[0]
        if choice.message.content is None or choice.finish_reason is None:
            raise EngineError(
                f"{self._client.name} gave no text (finish_reason {choice.finish_reason!r}); "
                "does the model think for longer than max_new_tokens, or call a tool?"
            )
        return Reply(
            choice.message.content, choice.finish_reason, answer.usage.prompt_tokens, answer.usage.completion_tokens
        )

    def score(
        self, prompt_ids: Sequence[int], reply_ids: Sequence[int], *, lifeline: Lifeline | None = None
    ) -> tuple[float, ...]:
        """The log-probability, at temperature 1, of each token of a reply; the endpoint is vLLM."""
        params = SamplingParams(temperature=0.0, max_new_tokens=1)
        job = Job(
            id="score", prompt_ids=(*prompt_ids, *reply_ids), params=params, seed=0, label="",
            wants_prompt_logprobs=True,
        )  # fmt: skip
        with self._room:
            drawn = self._tokens.draw(job, lifeline or Lifeline())
        if drawn.prompt_logprobs is None or drawn.prompt_length != len(job.prompt_ids):
            raise ConfigError(
                f"{self._client.name} does not say how probable given tokens are; scoring needs an endpoint of vLLM "
                "whose model has the student's vocabulary"
            )
        return logprobs(drawn.prompt_logprobs, len(job.prompt_ids) - 1, "prompt", job)[len(prompt_ids) - 1 :]

    def _chat_body(self, messages: Sequence[Message], p: SamplingParams, seed: int) -> dict[str, Json]:
        if p.allowed_tokens is not None or p.constraint is not None or p.logit_bias or p.top_logprobs:
            raise ConfigError(
                "a chat endpoint takes no allowed_tokens, constraint, logit_bias or top_logprobs here: its tokens are "
                "its own; leave them out"
            )
        extensions: dict[str, Json] = {"top_k": p.top_k, "min_p": p.min_p, "repetition_penalty": p.repetition_penalty}
        on = [name for name, off in zip(_EXTENSIONS, (0, 0.0, 1.0), strict=True) if extensions[name] != off]
        if on and not self._config.extended:
            raise ConfigError(
                f"{self._client.name} is not known to take {', '.join(on)}; leave it out, or say extended = true "
                "if vLLM or SGLang is behind it"
            )
        return {
            "model": self._config.model,
            "messages": [asdict(message) for message in messages],
            "max_tokens": p.max_new_tokens,
            "temperature": p.temperature,
            "top_p": p.top_p,
            "presence_penalty": p.presence_penalty,
            "frequency_penalty": p.frequency_penalty,
            "seed": seed % (1 << 31),
            **({"stop": [*p.stop]} if p.stop else {}),
            **(extensions if self._config.extended else {}),
        }
