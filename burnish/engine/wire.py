"""What an engine needs of a server that draws tokens, whatever the protocol; and what of its answer is believed.

A wrong answer is an error of that sample and names what was wrong: a log-probability that is missing, not finite or
positive, token ids that were not sent back, a prompt that the server changed, weights of another version. None of
them is ever filled in.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from burnish.chat.template import Chat
from burnish.core.errors import ConfigError, EngineError
from burnish.core.types import Completion, StopReason
from burnish.engine.http_client import Lifeline
from burnish.engine.params import SamplingParams
from burnish.engine.types import Request

NUM_LIKELY = 5
"""How many of the most probable tokens a wire is asked for in a proof."""
_CERTAIN = 1e-5  # a log-probability may exceed 0 by rounding
_IMPOSSIBLE = -9000.0  # vLLM writes -9999 for minus infinity


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One sample to draw; `label` names the weights that it should come from, and no other weights' cache."""

    id: str
    prompt_ids: tuple[int, ...]
    params: SamplingParams
    seed: int
    label: str
    wants_prompt_logprobs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """What a server says it drew. None: it did not say."""

    token_ids: tuple[int, ...] | None
    logprobs: tuple[float | None, ...] | None
    finish_reason: str | None
    prompt_length: int | None = None
    label: str | None = None
    """The version of the weights, where the server tells it with each sample."""
    prompt_logprobs: tuple[float | None, ...] | None = None
    """One for each prompt token but the first."""
    top_logprobs: tuple[tuple[tuple[int, float], ...], ...] = ()


def probe(prompt_ids: tuple[int, ...], temperature: float, label: str) -> Job:
    """What is asked for the most probable tokens after a prompt."""
    params = SamplingParams(temperature=temperature, max_new_tokens=1, top_logprobs=NUM_LIKELY)
    return Job(id=f"probe-{temperature}", prompt_ids=prompt_ids, params=params, seed=0, label=label)


class Wire(Protocol):
    """A protocol. Calls block; any number of threads make them."""

    def draw(self, job: Job, lifeline: Lifeline) -> Drawn:
        """Draw one sample."""
        ...

    def most_likely(self, prompt_ids: tuple[int, ...], temperature: float, label: str) -> dict[int, float]:
        """The log-probabilities of the most probable tokens after a prompt."""
        ...

    def unmet(self, request: Request) -> list[str]:
        """What a request asks for that the server cannot do, each with the reason."""
        ...


def refuse_unmet(name: str, wire: Wire, requests: Sequence[Request]) -> None:
    """`ConfigError` if the server cannot honour an option, before anything is sent."""
    faults = sorted({fault for request in requests for fault in wire.unmet(request)})
    if faults:
        raise ConfigError(f"engine {name!r}: {'; '.join(faults)}")


def no_adapter(name: str) -> str:
    """Why a server honours no `Request.adapter`."""
    return (
        f'it was given no adapter {name!r}: adapters by request are served by engine.use = "local" only; '
        "leave Request.adapter out"
    )


def read(drawn: Drawn, job: Job, chat: Chat, version: int, labels: Collection[str]) -> Completion:
    """Make a completion of what a server drew, or say why it is none.

    `labels` are those of the weights that were in force between asking and now.
    """
    if not drawn.token_ids:
        raise _wrong(job, "no token ids came back; is the server one that gives them?")
    if drawn.prompt_length not in (None, len(job.prompt_ids)):
        raise _wrong(job, f"the server used a prompt of {drawn.prompt_length} tokens, sent were {len(job.prompt_ids)}")
    if drawn.label is not None and drawn.label not in labels:
        raise _wrong(job, f"it comes from weights {drawn.label!r}, expected {' or '.join(sorted(labels))}")
    reason, text = _end(drawn, drawn.token_ids, job, chat)
    return Completion(
        token_ids=drawn.token_ids,
        logprobs=logprobs(drawn.logprobs, len(drawn.token_ids), "sampled", job),
        versions=(version,) * len(drawn.token_ids),
        text=text,
        stop_reason=reason,
        prompt_logprobs=_of_prompt(drawn, job),
        top_logprobs=drawn.top_logprobs,
    )


def _of_prompt(drawn: Drawn, job: Job) -> tuple[float, ...]:
    if not job.wants_prompt_logprobs:
        return ()
    if drawn.prompt_logprobs is None:
        raise ConfigError(
            "the server does not say how probable a prompt's tokens are; leave Request.prompt_logprobs out, or sample "
            'with engine.use = "local" or "vllm"'
        )
    return logprobs(drawn.prompt_logprobs, len(job.prompt_ids) - 1, "prompt", job)


def logprobs(values: Sequence[float | None] | None, expected: int, kind: str, job: Job) -> tuple[float, ...]:
    """Log-probabilities that are all there and all possible; `EngineError` otherwise."""
    if values is None or len(values) != expected:
        got = "none" if values is None else str(len(values))
        raise _wrong(job, f"expected {expected} log-probabilities of {kind} tokens, got {got}")
    return tuple(_logprob(value, f"{kind} token {place}", job) for place, value in enumerate(values))


def _logprob(value: float | None, which: str, job: Job) -> float:
    if value is None or not _IMPOSSIBLE < value <= _CERTAIN:  # of NaN nothing holds
        raise _wrong(job, f"{which} has log-probability {value!r}")
    return min(value, 0.0)


def _end(drawn: Drawn, token_ids: tuple[int, ...], job: Job, chat: Chat) -> tuple[StopReason, str]:
    """Why it ended, by what was drawn and not by what the server calls it; and its text."""
    text = chat.decode(token_ids)
    if drawn.finish_reason not in ("stop", "length"):
        raise _wrong(job, f"it ended by {drawn.finish_reason!r}, expected 'stop' or 'length'")
    if token_ids[-1] in chat.stop_ids:
        return "eos", text
    ends = [at for stop in job.params.stop if (at := text.find(stop)) >= 0]
    if ends:
        return "stop_string", text[: min(ends)]
    if drawn.finish_reason == "length":
        return "length", text
    raise _wrong(
        job,
        f"it ended at token {token_ids[-1]}, but that ends no turn of the chat template ({sorted(chat.stop_ids)}), "
        f"and none of the stop strings {job.params.stop!r} is in {text[-80:]!r}",
    )


def _wrong(job: Job, what: str) -> EngineError:
    return EngineError(f"sample {job.id}: {what}")
