"""vLLM in this process: its `AsyncLLM` on a loop in a thread of its own. The one door to the package `vllm`.

It is given the model's folder and builds a model of its own; new weights reach it as a server's do, through a folder.
The verbs and their order are those of `vllm.VllmReceiver`.

Not covered: LoRA adapters, weight transfer by process groups.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from importlib import import_module
from typing import Any, Protocol, TypeVar

from transformers import PreTrainedModel

from burnish.chat.template import Chat
from burnish.core.errors import ConfigError, EngineError
from burnish.core.types import Json
from burnish.engine.http_client import Lifeline
from burnish.engine.inside import Inside
from burnish.engine.openai_wire import sampling_options, structured, unmet
from burnish.engine.params import Constraint
from burnish.engine.proof import prove_processed
from burnish.engine.served import Place, ServedEngine, shortest
from burnish.engine.types import LiveEngine, Request
from burnish.engine.vllm import Config, follow
from burnish.engine.weight_sync import Delivery
from burnish.engine.wire import Drawn, Job, probe
from burnish.runtime.local import Background

try:  # by name: a type checker would take the file beside this one for the package, and the package has no types
    vllm: Any = import_module("vllm")
    params: Any = import_module("vllm.sampling_params")
    async_llm: Any = import_module("vllm.v1.engine.async_llm")
except ImportError as error:
    raise ConfigError(
        f"engine 'vllm' with in_process needs the package vllm ({error}); install it, or give the url of a server"
    ) from error

T = TypeVar("T")


def open_inside(
    model: PreTrainedModel, chat: Chat, *, max_rows: int, version: Callable[[], int], config: Config
) -> LiveEngine:
    """Build vLLM on the model's folder."""
    with ExitStack() as stack:
        background = stack.enter_context(Background())
        llm = background.run(_build(config.model or model.name_or_path or "", max_rows, config))
        inside = Inside("vLLM", llm, background)

        def close() -> None:  # safe to call twice
            llm.shutdown()
            background.stop()

        stack.callback(close)
        wire = InsideWire(inside, chat.stop_ids)
        prove_processed(wire, chat)
        weights = follow(InsideReceiver(inside, config.update_timeout_s), wire, model, chat, version, config)
        stack.pop_all()
    return ServedEngine(
        Place(
            name="vllm", wire=wire, weights=weights, chat=chat, max_rows=max_rows,
            most_tokens=shortest(model, llm.model_config.max_model_len), close=close,
        )
    )  # fmt: skip


async def _build(folder: str, max_rows: int, config: Config) -> Any:
    """In the loop, where its output handler has to live."""
    given: dict[str, Json] = {
        "model": folder, "max_num_seqs": max_rows, "logprobs_mode": "processed_logprobs", "enable_log_requests": False,
        **config.engine_args,
    }  # fmt: skip
    try:
        return async_llm.AsyncLLM.from_engine_args(vllm.AsyncEngineArgs(**given))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"vLLM does not take {given}: {error}") from error


class InsideWire:
    """See `Wire`."""

    def __init__(self, inside: Inside, stop_ids: frozenset[int]) -> None:
        self._inside, self._stop_ids = inside, sorted(stop_ids)

    def draw(self, job: Job, lifeline: Lifeline) -> Drawn:
        """See `Wire`."""
        return self._inside.wait("generate", self._draw(job), None, lifeline)

    def most_likely(self, prompt_ids: tuple[int, ...], temperature: float, label: str) -> dict[int, float]:
        """See `Wire`."""
        return dict(self.draw(probe(prompt_ids, temperature, label), Lifeline()).top_logprobs[0])

    def unmet(self, request: Request) -> list[str]:
        """See `Wire`."""
        return unmet(request)

    async def _draw(self, job: Job) -> Drawn:
        prompt = vllm.TokensPrompt(prompt_token_ids=list(job.prompt_ids))
        if job.label:
            prompt["cache_salt"] = job.label
        last = None
        async for output in self._inside.engine.generate(prompt, self._params(job), f"{job.label}-{job.id}"):
            last = output
        if last is None:
            raise EngineError(f"sample {job.id}: vLLM ended it without an answer")
        done = last.outputs[0]
        return Drawn(
            token_ids=tuple(done.token_ids),
            logprobs=tuple(place[i].logprob for place, i in zip(done.logprobs or (), done.token_ids, strict=False)),
            finish_reason=done.finish_reason,
            prompt_length=len(last.prompt_token_ids or ()),
            prompt_logprobs=_of_prompt(job, last.prompt_logprobs),
            top_logprobs=_top(done.logprobs or (), job.params.top_logprobs),
        )

    def _params(self, job: Job) -> Any:
        options = sampling_options(job.params)
        bias = dict(job.params.logit_bias)
        options.pop("structured_outputs", None)
        return vllm.SamplingParams(
            **options | {"logit_bias": bias or None},
            structured_outputs=_structured(job.params.constraint),
            seed=job.seed, stop_token_ids=self._stop_ids, ignore_eos=True, skip_special_tokens=False,
            spaces_between_special_tokens=False, output_kind=params.RequestOutputKind.FINAL_ONLY,
            prompt_logprobs=0 if job.wants_prompt_logprobs else None,
        )  # fmt: skip


def _structured(constraint: Constraint | None) -> Any:
    return None if constraint is None else params.StructuredOutputsParams(**structured(constraint))


class _Entry(Protocol):
    """What vLLM says of a token at a place."""

    logprob: float


Places = Sequence[Mapping[int, _Entry]]


def _of_prompt(job: Job, places: Places | None) -> tuple[float, ...] | None:
    """The entry of each prompt token but the first, which has none."""
    if places is None:
        return None
    return tuple(place[i].logprob for place, i in zip(places[1:], job.prompt_ids[1:], strict=True))


def _top(places: Places, num: int) -> tuple[tuple[tuple[int, float], ...], ...]:
    if not num:
        return ()
    ranked = [sorted(place.items(), key=lambda pair: -pair[1].logprob)[:num] for place in places]
    return tuple(tuple((token_id, entry.logprob) for token_id, entry in place) for place in ranked)


class InsideReceiver:
    """See `Receiver`."""

    def __init__(self, inside: Inside, wait_s: float) -> None:
        self._inside, self._wait_s = inside, wait_s

    def pause(self) -> None:
        """See `Receiver`."""
        self._do("pause_generation", self._inside.engine.pause_generation(mode="keep"))

    def load(self, delivery: Delivery) -> None:
        """See `Receiver`."""
        arguments = {"weights_path": str(delivery.folder)}
        self._do("reload_weights", self._inside.engine.collective_rpc("reload_weights", kwargs=arguments))

    def reset_cache(self) -> None:
        """See `Receiver`."""
        reset = self._inside.engine.reset_prefix_cache(reset_running_requests=True)
        if not self._do("reset_prefix_cache", reset):
            raise EngineError("vLLM refused to reset its prefix cache: values of the old weights would be used on")

    def stamp(self, label: str) -> None:
        """See `Receiver`."""
        self._do("update_weight_version", self._inside.engine.update_weight_version(label))

    def resume(self) -> None:
        """See `Receiver`."""
        self._do("resume_generation", self._inside.engine.resume_generation())

    def read_stamp(self) -> str | None:
        """See `Receiver`."""
        return self._do("get_weight_version", self._inside.engine.get_weight_version())

    def _do(self, what: str, work: Coroutine[object, object, T]) -> T:
        return self._inside.wait(what, work, self._wait_s, Lifeline())
