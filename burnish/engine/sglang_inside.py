"""SGLang in this process: its `Engine` on a loop in a thread of its own. The one door to the package `sglang`.

It is given the model's folder and builds a model of its own, in processes that it starts; new weights reach it as a
server's do, through a folder. The verbs and their order are those of `sglang.SglangReceiver`; SGLang's `Engine` has
methods for some of them only, and those run its loop, so all go to its `tokenizer_manager`.

Decision: its own `shutdown` kills every child of this process, the sandboxes and workers of the run too, and is
registered to run at exit. It is never called: the processes that came with it are ended, after a start that failed too.

Written against `python/sglang/srt` of sgl-project/sglang at 001067ff (`entrypoints/engine.py`) and 00a2ca2e
(`managers/tokenizer_control_mixin.py`).
"""

import atexit
import multiprocessing
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack
from importlib import import_module
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple, TypeVar

from transformers import PreTrainedModel

from burnish.chat.template import Chat
from burnish.core.errors import ConfigError, EngineError
from burnish.core.types import Json
from burnish.engine.http_client import GivenUp, Lifeline
from burnish.engine.inside import Inside
from burnish.engine.proof import prove_processed
from burnish.engine.served import Place, ServedEngine, shortest
from burnish.engine.sglang import ADAPTER, Config, adapter_of, follow
from burnish.engine.sglang_wire import Generated, drawn, generation, request_id, unmet
from burnish.engine.types import LiveEngine, Request
from burnish.engine.weight_sync import Delivery
from burnish.engine.wire import Drawn, Job, probe
from burnish.runtime.local import Background

try:  # by name: a type checker would take the file beside this one for the package, and the package has no types
    sglang: Any = import_module("sglang")
    messages: Any = import_module("sglang.srt.managers.io_struct")
except ImportError as error:
    raise ConfigError(
        f"engine 'sglang' with in_process needs the package sglang ({error}); install it, or give the url of a server"
    ) from error

T = TypeVar("T")

_END_S = 60
_VERBS = (
    "pause_generation", "update_weights_from_disk", "flush_cache", "update_weight_version", "continue_generation",
    "abort_request",
)  # fmt: skip


def open_inside(
    model: PreTrainedModel, chat: Chat, *, max_rows: int, version: Callable[[], int], config: Config
) -> LiveEngine:
    """Build SGLang on the model's folder."""
    with ExitStack() as stack:
        background = stack.enter_context(Background())
        built = background.run(_build(config.model or model.name_or_path or "", max_rows, config))
        inside = Inside("SGLang", built.engine, background)

        def close() -> None:  # safe to call twice
            built.end()
            background.stop()

        stack.callback(close)
        wire = InsideWire(inside, chat.stop_ids, adapter=adapter_of(config))
        prove_processed(InsideWire(inside, chat.stop_ids, adapter=None), chat)
        weights = follow(InsideReceiver(inside, config), wire, model, chat, version, config)
        stack.pop_all()
    return ServedEngine(
        Place(
            name="sglang", wire=wire, weights=weights, chat=chat, max_rows=max_rows,
            most_tokens=shortest(model, built.engine.tokenizer_manager.context_len), close=close,
        )
    )  # fmt: skip


class _Engine(NamedTuple):
    """An engine and the processes that came with it."""

    engine: Any
    children: list[BaseProcess]

    def end(self) -> None:
        """End the processes; the watchdog first, which takes that for a crash. Safe to call twice."""
        manager = getattr(self.engine, "tokenizer_manager", None)
        if (watchdog := getattr(manager, "_subprocess_watchdog", None)) is not None:
            watchdog.stop()
        for child in self.children:
            child.kill()
        for child in self.children:
            child.join(_END_S)


async def _build(folder: str, max_rows: int, config: Config) -> _Engine:
    """In the loop, which the engine takes for its own."""
    adapts: dict[str, Json] = {"enable_lora": True} if config.send == "adapter" else {}
    given: dict[str, Json] = {
        "model_path": folder, "max_running_requests": max_rows, **adapts, **config.engine_args,
    }  # fmt: skip
    engine = sglang.Engine.__new__(sglang.Engine)  # it registers `shutdown` before it starts, and may fail between
    before = multiprocessing.active_children()
    try:
        engine.__init__(**given)
        _check_verbs(engine.tokenizer_manager)
    except BaseException as error:
        _Engine(engine, _since(before)).end()
        if isinstance(error, (TypeError, ValueError, RuntimeError)):
            raise ConfigError(f"SGLang does not start with {given}: {error}") from error
        raise
    finally:
        atexit.unregister(engine.shutdown)
    return _Engine(engine, _since(before))


def _since(before: Sequence[BaseProcess]) -> list[BaseProcess]:
    return [child for child in multiprocessing.active_children() if child not in before]


def _check_verbs(manager: Any) -> None:
    if missing := [verb for verb in _VERBS if not hasattr(manager, verb)]:
        version = getattr(sglang, "__version__", "of unknown version")
        raise ConfigError(
            f"this SGLang ({version}) has no {', '.join(missing)}, which an update of weights needs; install a newer "
            "one, or give the url of a server"
        )


class InsideWire:
    """See `Wire`."""

    def __init__(self, inside: Inside, stop_ids: frozenset[int], *, adapter: str | None) -> None:
        self._inside, self._stop_ids, self._adapter = inside, stop_ids, adapter

    def draw(self, job: Job, lifeline: Lifeline) -> Drawn:
        """See `Wire`."""
        try:
            answer = self._inside.wait("generate", self._generate(job), None, lifeline)
        except GivenUp:
            self._inside.wait("abort_request", self._abort(job), 10.0, Lifeline())
            raise
        return drawn(Generated.model_validate(answer), job)

    def most_likely(self, prompt_ids: tuple[int, ...], temperature: float, label: str) -> dict[int, float]:
        """See `Wire`."""
        return dict(self.draw(probe(prompt_ids, temperature, label), Lifeline()).top_logprobs[0])

    def unmet(self, request: Request) -> list[str]:
        """See `Wire`."""
        return unmet(request)

    async def _generate(self, job: Job) -> Any:
        arguments = generation(job, self._stop_ids, self._adapter)
        return await self._inside.engine.async_generate(**arguments, cache_salt=job.label or None)

    async def _abort(self, job: Job) -> None:
        self._inside.engine.tokenizer_manager.abort_request(rid=request_id(job))


class InsideReceiver:
    """See `Receiver`."""

    def __init__(self, inside: Inside, config: Config) -> None:
        self._inside, self._only_adapter, self._wait_s = inside, config.send == "adapter", config.update_timeout_s
        self._manager = inside.engine.tokenizer_manager
        self._has_adapter = False

    def pause(self) -> None:
        """See `Receiver`."""
        pause = messages.PauseGenerationReqInput(mode="retract")
        self._do("pause_generation", self._manager.pause_generation(pause))

    def load(self, delivery: Delivery) -> None:
        """See `Receiver`."""
        if self._only_adapter:
            self._load_adapter(delivery)
            return
        update = messages.UpdateWeightFromDiskReqInput(model_path=str(delivery.folder), flush_cache=False)
        success, message, *_ = self._do("update_weights_from_disk", self._manager.update_weights_from_disk(update))
        if not success:
            raise EngineError(f"SGLang failed in update_weights_from_disk: {message}")

    def reset_cache(self) -> None:
        """See `Receiver`."""
        if not self._do("flush_cache", self._manager.flush_cache()).success:
            raise EngineError("SGLang refused to flush its cache: values of the old weights would be used on")

    def stamp(self, label: str) -> None:
        """See `Receiver`."""
        stamp = messages.UpdateWeightVersionReqInput(new_version=label, abort_all_requests=False)
        self._do("update_weight_version", self._manager.update_weight_version(stamp))

    def resume(self) -> None:
        """See `Receiver`."""
        go_on = messages.ContinueGenerationReqInput()
        self._do("continue_generation", self._manager.continue_generation(go_on))

    def read_stamp(self) -> str | None:
        """See `Receiver`."""
        return self._inside.engine.get_model_info()["weight_version"]

    def _load_adapter(self, delivery: Delivery) -> None:
        """There is no loading in place: the old one goes first, under the same name."""
        if self._has_adapter:
            self._has_adapter = False
            self._told("unload_lora_adapter", self._inside.engine.async_unload_lora_adapter(ADAPTER))
        folder = str(delivery.folder)
        self._told("load_lora_adapter", self._inside.engine.async_load_lora_adapter(ADAPTER, folder))
        self._has_adapter = True

    def _told(self, what: str, work: Coroutine[object, object, Any]) -> None:
        outcome = self._do(what, work)
        if not outcome.success:
            raise EngineError(f"SGLang failed in {what}: {outcome.error_message}")

    def _do(self, what: str, work: Coroutine[object, object, T]) -> T:
        return self._inside.wait(what, work, self._wait_s, Lifeline())
