"""`POST /v1/completions` with token ids on both sides, as vLLM extends it (`return_token_ids`).

Every option that has a meaning for the distribution is sent, also where it has its default: servers take what is
left out from the model's `generation_config.json`, and would sample from something else than asked for. The end of a
sample is decided by the stop tokens of the chat template alone (`ignore_eos` with `stop_token_ids`).

What differs from the local engine: `min_p` comes before `top_k` and `top_p`, which matters where they are combined;
`logit_bias` ends at 100.
"""

from pydantic import Field

from burnish.core.errors import ConfigError
from burnish.core.types import Json
from burnish.engine.http_client import Answer, Client, Lifeline
from burnish.engine.params import Constraint, SamplingParams
from burnish.engine.types import Request
from burnish.engine.wire import NUM_LIKELY, Drawn, Job, no_adapter

_MOST_BIAS = 100.0
_TOKEN = "token_id:"
_STRUCTURED = {"json_schema": "json", "regex": "regex", "grammar": "grammar"}


class Logprobs(Answer):
    """Of the sampled tokens; `top_logprobs` by the token's name, which is `token_id:ID`."""

    token_logprobs: list[float | None] = []
    top_logprobs: list[dict[str, float] | None] | None = None


class PromptLogprob(Answer):
    """One token at one place of the prompt."""

    logprob: float | None


class Choice(Answer):
    """One sample."""

    text: str = ""
    finish_reason: str | None = None
    token_ids: list[int] | None = None
    prompt_token_ids: list[int] | None = None
    logprobs: Logprobs | None = None
    prompt_logprobs: list[dict[str, PromptLogprob] | None] | None = None


class Completions(Answer):
    """The answer."""

    choices: list[Choice] = Field(min_length=1)


class ModelCard(Answer):
    """A model that is served."""

    id: str
    max_model_len: int | None = None


class ModelList(Answer):
    """The answer to `GET /v1/models`."""

    data: list[ModelCard]


class CompletionsWire:
    """See `Wire`."""

    def __init__(self, client: Client, model: str, stop_ids: frozenset[int], *, salts_cache: bool) -> None:
        self._client, self._model, self._stop_ids, self._salts_cache = client, model, stop_ids, salts_cache

    def draw(self, job: Job, lifeline: Lifeline) -> Drawn:
        """See `Wire`."""
        answer = self._client.post("/v1/completions", self._body(job), Completions, may_repeat=True, lifeline=lifeline)
        return drawn(answer.choices[0], job)

    def most_likely(self, prompt_ids: tuple[int, ...], temperature: float, label: str) -> dict[int, float]:
        """See `Wire`."""
        params = SamplingParams(temperature=temperature, max_new_tokens=1, top_logprobs=NUM_LIKELY)
        job = Job(id="probe", prompt_ids=prompt_ids, params=params, seed=0, label=label)
        return dict(self.draw(job, Lifeline()).top_logprobs[0])

    def unmet(self, request: Request) -> list[str]:
        """See `Wire`."""
        return unmet(request)

    def _body(self, job: Job) -> dict[str, Json]:
        return {
            "model": self._model,
            "prompt": [*job.prompt_ids],
            "seed": job.seed,
            "stop_token_ids": [*sorted(self._stop_ids)],
            "ignore_eos": True,
            "skip_special_tokens": False,
            "spaces_between_special_tokens": False,
            "add_special_tokens": False,
            "return_token_ids": True,
            "return_tokens_as_token_ids": True,
            **sampling_options(job.params),
            **({"prompt_logprobs": 0} if job.wants_prompt_logprobs else {}),
            **({"cache_salt": job.label} if self._salts_cache and job.label else {}),
        }


def unmet(request: Request) -> list[str]:
    """What vLLM cannot do of a request."""
    faults = [] if request.adapter is None else [no_adapter(request.adapter)]
    if any(abs(bias) > _MOST_BIAS for _, bias in request.params.logit_bias):
        faults.append(f"logit_bias ends at {_MOST_BIAS:g} there; to ban tokens, list the others in allowed_tokens")
    return faults


def served_model(client: Client, name: str) -> ModelCard:
    """The model of that name, or the only one that the server has."""
    cards = {card.id: card for card in client.get("/v1/models", ModelList).data}
    if name and name not in cards:
        raise ConfigError(f"{client.name} serves no model {name!r}; there are: {', '.join(cards)}")
    if not name and len(cards) != 1:
        raise ConfigError(f"{client.name} serves {', '.join(cards)}: say which in the engine's option model")
    return cards[name or next(iter(cards))]


def sampling_options(p: SamplingParams) -> dict[str, Json]:
    """The part of the request that says what is sampled from, and until when."""
    options: dict[str, Json] = {
        "n": 1,
        "max_tokens": p.max_new_tokens,
        "temperature": p.temperature,
        "top_p": p.top_p,
        "top_k": p.top_k,
        "min_p": p.min_p,
        "repetition_penalty": p.repetition_penalty,
        "presence_penalty": p.presence_penalty,
        "frequency_penalty": p.frequency_penalty,
        "stop": [*p.stop],
        "logprobs": p.top_logprobs,
    }
    if p.logit_bias:
        options["logit_bias"] = {str(token_id): bias for token_id, bias in p.logit_bias}
    if p.allowed_tokens is not None:
        options["allowed_token_ids"] = [*sorted(p.allowed_tokens)]
    if p.constraint is not None:
        options["structured_outputs"] = structured(p.constraint)
    return options


def drawn(choice: Choice, job: Job) -> Drawn:
    """What a choice says."""
    logprobs = choice.logprobs
    return Drawn(
        token_ids=None if choice.token_ids is None else tuple(choice.token_ids),
        logprobs=None if logprobs is None else tuple(logprobs.token_logprobs),
        finish_reason=choice.finish_reason,
        prompt_length=None if choice.prompt_token_ids is None else len(choice.prompt_token_ids),
        prompt_logprobs=_of_prompt(choice, job),
        top_logprobs=_top(logprobs, job.params.top_logprobs),
    )


def structured(constraint: Constraint) -> dict[str, Json]:
    """A constraint in vLLM's words."""
    return {_STRUCTURED[constraint.kind]: constraint.source}


def _of_prompt(choice: Choice, job: Job) -> tuple[float | None, ...] | None:
    """The entry of each prompt token but the first, which has none."""
    if choice.prompt_logprobs is None:
        return None
    return tuple(
        None if entry is None or str(token_id) not in entry else entry[str(token_id)].logprob
        for token_id, entry in zip(job.prompt_ids[1:], choice.prompt_logprobs[1:], strict=False)
    )


def _top(logprobs: Logprobs | None, num: int) -> tuple[tuple[tuple[int, float], ...], ...]:
    """The `num` most probable tokens at each place; the server adds the sampled one where it is not among them."""
    if not num or logprobs is None or logprobs.top_logprobs is None:
        return ()
    return tuple(
        tuple(
            sorted(((_token_id(name), value) for name, value in (place or {}).items()), key=lambda pair: -pair[1])[:num]
        )
        for place in logprobs.top_logprobs
    )


def _token_id(name: str) -> int:
    return int(name.removeprefix(_TOKEN))
