"""SGLang: a server that was started for this run, by its native protocol (`/generate` with `input_ids`), or an engine
in this process (`in_process`).

docs/engine_backends.md has the commands, and says what was run.

Decisions: an update pauses by `retract`, so that requests under way are computed again with the new weights and the
cache can be flushed (with `in_place` the flush fails); the weights' name goes along as `extra_key`, so that no key or
value of old weights can be met; every sample says which weights it comes from, and is refused if they are others.

Covered: full weights through files, LoRA adapters. Not covered: weights through tensors or a process group, several
servers behind one router.
"""

from collections.abc import Callable, Mapping
from typing import Literal

from pydantic import Field, JsonValue, model_validator
from transformers import PreTrainedModel

from burnish.chat.template import Chat
from burnish.core.config import validate
from burnish.core.errors import EngineError
from burnish.core.types import Json
from burnish.engine.http_client import Answer, Client, Refused, Server
from burnish.engine.proof import prove_processed, prove_weights
from burnish.engine.served import Place, ServedEngine, shortest
from burnish.engine.sglang_wire import SglangWire
from burnish.engine.types import LiveEngine
from burnish.engine.weight_sync import Delivery, Receiver, WeightSync
from burnish.engine.wire import Wire

ADAPTER = "burnish-policy"


class Config(Server):
    """Options of `sglang`."""

    url: str = Field(default="", pattern=r"^(https?://[^/?#]+(/[^?#]*)?)?$")
    """Of the server; leave it out with `in_process`."""
    in_process: bool = False
    """Build SGLang in this process, on the model's own folder."""
    model: str = ""
    """In process: another folder than the model's own."""
    engine_args: dict[str, JsonValue] = {}
    """In process: arguments of SGLang's `ServerArgs`, for example `mem_fraction_static`."""
    send: Literal["weights", "adapter"] = "weights"
    """All weights merged, or the LoRA adapter."""
    folder: str = ""
    """Where weights are written, on a disk that the server reads too; default: a temporary one of this host."""
    update_timeout_s: float = Field(default=300.0, gt=0)
    """For each verb of a weight update."""
    tolerance: float = Field(default=0.5, gt=0)
    """How far, in nats, the server's likeliest tokens may be from the live model's after an update."""

    @model_validator(mode="after")
    def _one_place(self) -> "Config":
        if bool(self.url) == self.in_process:
            raise ValueError('say either url = "http://HOST:PORT" or in_process = true')
        given = [name for name in ("model", "engine_args") if getattr(self, name)]
        if given and not self.in_process:
            raise ValueError(f"{' and '.join(given)}: for in_process alone; a server has its own command line")
        return self


class ModelInfo(Answer):
    """The answer of `/get_model_info`."""

    model_path: str = ""
    weight_version: str | None = None


class _ServerInfo(Answer):
    """The part of `/get_server_info` that is read."""

    context_length: int | None = None


class _Outcome(Answer):
    """The answer of the verbs that may fail."""

    success: bool = True
    message: str = ""
    error_message: str | None = None


class _Nothing(Answer):
    """An answer of which only the status matters."""


def open_engine(
    model: PreTrainedModel, chat: Chat, *, max_rows: int, version: Callable[[], int], options: Mapping[str, Json]
) -> LiveEngine:
    """Open the engine: `ConfigError` where the server is not set up as this needs it."""
    config = validate(Config, options, "options of engine 'sglang'")
    if config.in_process:
        from burnish.engine.sglang_inside import open_inside  # noqa: PLC0415  # the door to the package sglang

        return open_inside(model, chat, max_rows=max_rows, version=version, config=config)
    client = Client(config)
    wire = SglangWire(client, chat.stop_ids, adapter=adapter_of(config))
    prove_processed(SglangWire(client, chat.stop_ids, adapter=None), chat)
    weights = follow(SglangReceiver(client, config), wire, model, chat, version, config)
    most_tokens = shortest(model, client.get("/get_server_info", _ServerInfo).context_length)
    return ServedEngine(
        Place(name="sglang", wire=wire, weights=weights, chat=chat, max_rows=max_rows, most_tokens=most_tokens)
    )


def adapter_of(config: Config) -> str | None:
    """The name of the adapter to sample with, if that is what is sent."""
    return ADAPTER if config.send == "adapter" else None


def follow(
    receiver: Receiver, wire: Wire, model: PreTrainedModel, chat: Chat, version: Callable[[], int], config: Config
) -> WeightSync:
    """Keep the engine at the live model's weights, proving it after each update."""
    return WeightSync(
        receiver, model, version, folder=config.folder, files="adapter" if config.send == "adapter" else "merged",
        prove=lambda label: prove_weights(wire, chat, model, config.tolerance, label),
    )  # fmt: skip


class SglangReceiver:
    """The verbs of an SGLang server. See `Receiver`."""

    def __init__(self, client: Client, config: Config) -> None:
        self._client, self._only_adapter, self._wait_s = client, config.send == "adapter", config.update_timeout_s
        self._has_adapter = False

    def pause(self) -> None:
        """See `Receiver`."""
        self._do("/pause_generation", {"mode": "retract"})

    def load(self, delivery: Delivery) -> None:
        """See `Receiver`."""
        if self._only_adapter:
            self._load_adapter(delivery)
        else:
            self._do("/update_weights_from_disk", {"model_path": str(delivery.folder), "flush_cache": False})

    def reset_cache(self) -> None:
        """See `Receiver`; the server refuses by status 400 while requests hold keys and values."""
        try:
            self._client.post("/flush_cache", {}, _Nothing, may_repeat=False, timeout_s=self._wait_s)
        except Refused as error:
            raise EngineError(
                f"{error}: the server refused to flush its cache, so keys and values of the old weights would be "
                "used on; does somebody else hold requests there?"
            ) from error

    def stamp(self, label: str) -> None:
        """See `Receiver`."""
        self._do("/update_weight_version", {"new_version": label, "abort_all_requests": False})

    def resume(self) -> None:
        """See `Receiver`."""
        self._do("/continue_generation", {})

    def read_stamp(self) -> str | None:
        """See `Receiver`."""
        return self._client.get("/get_model_info", ModelInfo, timeout_s=self._wait_s).weight_version

    def _load_adapter(self, delivery: Delivery) -> None:
        """There is no loading in place: the old one goes first, under the same name."""
        if self._has_adapter:
            self._has_adapter = False
            self._do("/unload_lora_adapter", {"lora_name": ADAPTER})
        self._do("/load_lora_adapter", {"lora_name": ADAPTER, "lora_path": str(delivery.folder)})
        self._has_adapter = True

    def _do(self, path: str, body: Mapping[str, Json]) -> None:
        outcome = self._client.post(path, body, _Outcome, may_repeat=False, timeout_s=self._wait_s)
        if not outcome.success:
            said = outcome.message or outcome.error_message
            raise EngineError(f"POST {path} at {self._client.name}: the server could not: {said}")
