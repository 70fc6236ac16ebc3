"""SGLang's native `POST /generate`: token ids in, token ids and log-probabilities out.

Its log-probabilities are of softmax(logits / temperature), before top-k, top-p and min-p; so a request that filters is
refused, since its log-probabilities would not be of what is sampled from. A seed is honoured by servers that run with
--enable-deterministic-inference; others draw anew each time. `ignore_eos` would switch the stop tokens off too, so the
model's own ones end a sample as well: where they are none of the chat template's, the sample is an error.
"""

from typing import NamedTuple

from burnish.core.errors import EngineError
from burnish.core.types import Json
from burnish.engine.http_client import Answer, Client, GivenUp, Lifeline
from burnish.engine.params import SamplingParams
from burnish.engine.types import Request
from burnish.engine.wire import Drawn, Job, no_adapter, probe


class TokenLogprob(NamedTuple):
    """How the server writes a token."""

    logprob: float | None
    token_id: int
    text: str | None = None


class FinishReason(Answer):
    """Why a sample ended."""

    type: str


class MetaInfo(Answer):
    """What the server tells about a sample."""

    finish_reason: FinishReason | None = None
    prompt_tokens: int | None = None
    weight_version: str | None = None
    output_token_logprobs: list[TokenLogprob] | None = None
    output_top_logprobs: list[list[TokenLogprob] | None] | None = None
    input_token_logprobs: list[TokenLogprob] | None = None


class Generated(Answer):
    """The answer of `/generate`."""

    output_ids: list[int] | None = None
    meta_info: MetaInfo


class _Nothing(Answer):
    """An answer of which only the status matters."""


class SglangWire:
    """See `Wire`."""

    def __init__(self, client: Client, stop_ids: frozenset[int], *, adapter: str | None) -> None:
        self._client, self._stop_ids, self._adapter = client, stop_ids, adapter

    def draw(self, job: Job, lifeline: Lifeline) -> Drawn:
        """See `Wire`. What is given up is also aborted by its id: the server looks rarely whether a client is there."""
        try:
            answer = self._client.post("/generate", self._body(job), Generated, may_repeat=True, lifeline=lifeline)
        except GivenUp:
            self._client.post("/abort_request", {"rid": request_id(job)}, _Nothing, may_repeat=False, timeout_s=10.0)
            raise
        return drawn(answer, job)

    def most_likely(self, prompt_ids: tuple[int, ...], temperature: float, label: str) -> dict[int, float]:
        """See `Wire`."""
        return dict(self.draw(probe(prompt_ids, temperature, label), Lifeline()).top_logprobs[0])

    def unmet(self, request: Request) -> list[str]:
        """See `Wire`."""
        return unmet(request)

    def _body(self, job: Job) -> dict[str, Json]:
        return {
            **generation(job, self._stop_ids, self._adapter),
            **({"extra_key": job.label} if job.label else {}),
        }


def unmet(request: Request) -> list[str]:
    """See `Wire`."""
    p = request.params
    filters = [name for name, on in (("top_k", p.top_k), ("top_p", p.top_p < 1), ("min_p", p.min_p)) if on]
    faults = [
        f'its log-probabilities are those before {name}; leave it out, or use engine.use = "vllm"' for name in filters
    ]
    if p.allowed_tokens is not None:
        faults.append('allowed_tokens is not known there; use engine.use = "vllm" or "local"')
    if p.constraint is not None and p.constraint.kind == "grammar":
        faults.append("its grammars are EBNF and not llguidance's; use a json_schema or a regex")
    if request.adapter is not None:
        faults.append(no_adapter(request.adapter))
    return faults


def generation(job: Job, stop_ids: frozenset[int], adapter: str | None) -> dict[str, Json]:
    """The arguments that the server and the engine have in common."""
    return {
        "rid": request_id(job),
        "input_ids": [*job.prompt_ids],
        "sampling_params": sampling_options(job.params, job.seed, stop_ids),
        "return_logprob": True,
        "logprob_start_len": 0 if job.wants_prompt_logprobs else -1,
        "top_logprobs_num": job.params.top_logprobs,
        **({"lora_path": adapter} if adapter else {}),
    }


def sampling_options(p: SamplingParams, seed: int, stop_ids: frozenset[int]) -> dict[str, Json]:
    """What is sampled from, and until when; all of it, since the server fills gaps from the model's own defaults."""
    options: dict[str, Json] = {
        "n": 1,
        "max_new_tokens": p.max_new_tokens,
        "temperature": p.temperature,
        "top_p": 1.0,
        "top_k": -1,
        "min_p": 0.0,
        "repetition_penalty": p.repetition_penalty,
        "presence_penalty": p.presence_penalty,
        "frequency_penalty": p.frequency_penalty,
        "stop": [*p.stop],
        "stop_token_ids": [*sorted(stop_ids)],
        "skip_special_tokens": False,
        "spaces_between_special_tokens": False,
        "sampling_seed": seed % (1 << 31),
    }
    if p.logit_bias:
        options["logit_bias"] = {str(token_id): bias for token_id, bias in p.logit_bias}
    if p.constraint is not None:
        options[p.constraint.kind] = p.constraint.source
    return options


def drawn(answer: Generated, job: Job) -> Drawn:
    """What an answer says."""
    meta = answer.meta_info
    of_output = meta.output_token_logprobs
    if of_output is not None and answer.output_ids is not None:
        ids = [entry.token_id for entry in of_output]
        if ids != answer.output_ids:
            raise EngineError(f"sample {job.id}: token ids {answer.output_ids} came with log-probabilities of {ids}")
    of_prompt = meta.input_token_logprobs
    return Drawn(
        token_ids=None if answer.output_ids is None else tuple(answer.output_ids),
        logprobs=None if of_output is None else tuple(entry.logprob for entry in of_output),
        finish_reason=None if meta.finish_reason is None else meta.finish_reason.type,
        prompt_length=meta.prompt_tokens,
        label=meta.weight_version if job.label else None,
        prompt_logprobs=None if of_prompt is None else tuple(entry.logprob for entry in of_prompt[1:]),
        top_logprobs=_top(meta, job.params.top_logprobs),
    )


def _top(meta: MetaInfo, num: int) -> tuple[tuple[tuple[int, float], ...], ...]:
    if not num or meta.output_top_logprobs is None:
        return ()
    return tuple(
        tuple((entry.token_id, entry.logprob) for entry in place or () if entry.logprob is not None)
        for place in meta.output_top_logprobs
    )


def request_id(job: Job) -> str:
    """By which a sample can be given up."""
    return f"{job.label or 'burnish'}-{job.id}"
