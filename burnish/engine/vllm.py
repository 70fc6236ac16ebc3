"""vLLM: a server that was started for this run, or an engine in this process (`in_process`).

A server needs `--logprobs-mode processed_logprobs` and the environment variable VLLM_SERVER_DEV_MODE=1 (pause, load,
reset and version are only then there); an adapter also --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1. All of
that is asked for when the engine is opened. docs/engine_backends.md has the commands and says what was run.

Decisions: a pause keeps what is under way (`mode=keep`), so that an update costs no samples; the prefix cache is reset
together with the running requests, and each request carries the weights' name as the cache's salt besides, so that no
key or value of old weights can be met.

Covered: full weights through files, LoRA adapters in place, vLLM's own weight transfer (`send = "transfer"`).
Not covered: several servers behind one balancer, sleep.
"""

from collections.abc import Callable, Mapping
from typing import Literal

from pydantic import Field, JsonValue, model_validator
from transformers import PreTrainedModel

from burnish.chat.template import Chat
from burnish.core.config import Strict, validate
from burnish.core.errors import ConfigError, EngineError
from burnish.core.types import Json
from burnish.engine.http_client import Answer, Client, Refused, Server
from burnish.engine.openai_wire import CompletionsWire, served_model
from burnish.engine.proof import prove_processed, prove_weights
from burnish.engine.served import Place, ServedEngine, shortest
from burnish.engine.types import LiveEngine
from burnish.engine.weight_sync import Delivery, Files, Receiver, WeightSync
from burnish.engine.wire import Wire

ADAPTER = "burnish-policy"
FILES: dict[str, Files] = {"weights": "merged", "adapter": "adapter", "transfer": "none"}


class Config(Strict):
    """Options of `vllm`."""

    url: str = Field(default="", pattern=r"^(https?://.+)?$")
    """Of the server; leave it out with `in_process`."""
    in_process: bool = False
    """Build vLLM in this process, on the model's own folder."""
    model: str = ""
    """The name that the server knows the model by; default: the only one that it serves. In process: its folder."""
    engine_args: dict[str, JsonValue] = {}
    """In process: arguments of vLLM's `AsyncEngineArgs`, for example `gpu_memory_utilization`."""
    send: Literal["weights", "adapter", "transfer"] = "weights"
    """All weights merged, in a file; the LoRA adapter, in a file; or all weights by vLLM's own transfer engine."""
    master_address: str = ""
    """With `send = "transfer"`: this host, as the server's workers reach it."""
    master_port: int = Field(default=29555, ge=1, le=65535)
    """With `send = "transfer"`: a free port of this host."""
    folder: str = ""
    """Where weights are written, on a disk that the server reads too; default: a temporary one of this host."""
    api_key_env: str = ""
    ca_file: str = ""
    timeout_s: float = Field(default=600.0, gt=0)
    update_timeout_s: float = Field(default=300.0, gt=0)
    """For each verb of a weight update."""
    most_tries: int = Field(default=5, ge=1)
    tolerance: float = Field(default=0.5, gt=0)
    """How far, in nats, the server's likeliest tokens may be from the live model's after an update."""

    @model_validator(mode="after")
    def _one_place(self) -> "Config":
        if bool(self.url) == self.in_process:
            raise ValueError('say either url = "http://HOST:PORT" or in_process = true')
        if self.in_process and self.send != "weights":
            raise ValueError(f'in_process sends weights through files; leave out send = "{self.send}"')
        if (self.send == "transfer") != bool(self.master_address):
            raise ValueError('send = "transfer" and master_address go together')
        if self.engine_args and not self.in_process:
            raise ValueError("engine_args are for in_process; a server has its own command line")
        return self


class _Nothing(Answer):
    """An answer of which only the status matters."""


class _Reset(Answer):
    """The answer of `/reset_prefix_cache`; servers before that field answered nothing."""

    success: bool = True


class _WeightInfo(Answer):
    """The answer of `/weight_info`."""

    weight_version: str | None = None


def open_engine(
    model: PreTrainedModel, chat: Chat, *, max_rows: int, version: Callable[[], int], options: Mapping[str, Json]
) -> LiveEngine:
    """Open the engine: `ConfigError` where the server is not set up as this needs it."""
    config = validate(Config, options, "options of engine 'vllm'")
    if config.in_process:
        from burnish.engine.vllm_inside import open_inside  # noqa: PLC0415  # the door to the package vllm

        return open_inside(model, chat, max_rows=max_rows, version=version, config=config)
    client = _client(config)
    card = served_model(client, config.model)
    sampled = ADAPTER if config.send == "adapter" else card.id
    wire = CompletionsWire(client, sampled, chat.stop_ids, salts_cache=True)
    prove_processed(CompletionsWire(client, card.id, chat.stop_ids, salts_cache=False), chat)
    check_verbs(client)
    receiver = VllmReceiver(client, config, _transfer(client, config, model))
    return ServedEngine(
        Place(
            name="vllm", wire=wire, weights=follow(receiver, wire, model, chat, version, config),
            chat=chat, max_rows=max_rows, most_tokens=shortest(model, card.max_model_len),
        )
    )  # fmt: skip


def follow(
    receiver: Receiver, wire: Wire, model: PreTrainedModel, chat: Chat, version: Callable[[], int], config: Config
) -> WeightSync:
    """Keep the engine at the live model's weights, proving it after each update."""
    return WeightSync(
        receiver, model, version, folder=config.folder, files=FILES[config.send],
        prove=lambda label: prove_weights(wire, chat, model, config.tolerance, label),
    )  # fmt: skip


def _client(config: Config) -> Client:
    return Client(
        Server(
            url=config.url, api_key_env=config.api_key_env, ca_file=config.ca_file,
            timeout_s=config.timeout_s, most_tries=config.most_tries,
        )
    )  # fmt: skip


def check_verbs(client: Client) -> None:
    """`ConfigError` if the server does not have the verbs of a weight update."""
    try:
        client.get("/is_paused", _Nothing)
    except Refused as error:
        raise ConfigError(
            f"{client.name} lets nobody update its weights ({error}); "
            "start it with VLLM_SERVER_DEV_MODE=1, where nobody else can reach it"
        ) from None


def _transfer(client: Client, config: Config, model: PreTrainedModel) -> Callable[[], None] | None:
    if config.send != "transfer":
        return None
    from burnish.engine.vllm_transfer import Meeting, Transfer  # noqa: PLC0415  # needs the package vllm

    meeting = Meeting(master_address=config.master_address, master_port=config.master_port)
    return Transfer(client, model, meeting, config.update_timeout_s).send


class VllmReceiver:
    """The verbs of a vLLM server (`vllm/entrypoints/serve/dev`). See `Receiver`."""

    def __init__(self, client: Client, config: Config, transfer: Callable[[], None] | None) -> None:
        self._client, self._only_adapter, self._transfer = client, config.send == "adapter", transfer
        self._wait_s = config.update_timeout_s

    def pause(self) -> None:
        """See `Receiver`."""
        self._do("/pause?mode=keep", {})

    def load(self, delivery: Delivery) -> None:
        """See `Receiver`."""
        if self._transfer is not None:
            self._transfer()
        elif self._only_adapter:
            self._load_adapter(delivery)
        else:
            arguments: dict[str, Json] = {"weights_path": str(delivery.folder)}
            body: dict[str, Json] = {"method": "reload_weights", "kwargs": arguments, "timeout": self._wait_s}
            self._client.post("/collective_rpc", body, _Nothing, may_repeat=False, timeout_s=self._wait_s)

    def reset_cache(self) -> None:
        """See `Receiver`."""
        path = "/reset_prefix_cache?reset_running_requests=true"
        if not self._client.post(path, {}, _Reset, may_repeat=False, timeout_s=self._wait_s).success:
            raise EngineError(
                f"POST {path} at {self._client.name}: the server refused to reset its prefix cache, so keys and "
                "values of the old weights would be used on; does somebody else hold requests there?"
            )

    def stamp(self, label: str) -> None:
        """See `Receiver`."""
        self._do("/update_weight_version", {"new_version": label})

    def resume(self) -> None:
        """See `Receiver`."""
        self._do("/resume", {})

    def read_stamp(self) -> str | None:
        """See `Receiver`."""
        return self._client.get("/weight_info", _WeightInfo, timeout_s=self._wait_s).weight_version

    def _load_adapter(self, delivery: Delivery) -> None:
        body: dict[str, Json] = {"lora_name": ADAPTER, "lora_path": str(delivery.folder), "load_inplace": True}
        self._do("/v1/load_lora_adapter", body)

    def _do(self, path: str, body: Mapping[str, Json]) -> None:
        self._client.post(path, body, _Nothing, may_repeat=False, timeout_s=self._wait_s)
