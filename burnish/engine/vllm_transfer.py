"""vLLM's own weight transfer, for learner and server on GPUs: weights go over NCCL and never touch a disk.

vLLM's trainer engine drives the four phases (init once; start, update, finish each time) and broadcasts; the verbs go
through our client, so that each is bounded in time and named. Written against vllm 0.32
(vllm/distributed/weight_transfer). It needs two GPUs and has not been run: see docs/engine_backends.md.

Not covered: adapters (names of adapted layers are not the server's), learners in several processes.
"""

from transformers import PreTrainedModel

from burnish.core.config import Strict
from burnish.core.errors import ConfigError, EngineError
from burnish.core.types import Json
from burnish.engine.http_client import Answer, Client
from burnish.models.lora import LoraLinear

try:
    from vllm.distributed.weight_transfer import (  # pyright: ignore[reportMissingImports]
        ModuleSource,
        WeightTransferTrainerFactory,
    )
    from vllm.distributed.weight_transfer.nccl_common import (  # pyright: ignore[reportMissingImports]
        NCCLTrainerInitInfo,
    )
except ImportError as error:
    raise ConfigError(
        f'send = "transfer" needs the package vllm beside the learner ({error}); install the server\'s version of it, '
        'or say send = "weights"'
    ) from error


class Meeting(Strict):
    """Where learner and workers meet."""

    master_address: str
    """This host, as the server's workers reach it."""
    master_port: int


class _World(Answer):
    """The answer of `/get_world_size`."""

    world_size: int


class _Done(Answer):
    """An answer of which only the status matters."""


class Verbs:
    """What vLLM's trainer engine asks of a server (`VLLMWeightSyncClient`)."""

    def __init__(self, client: Client, wait_s: float) -> None:
        self._client, self._wait_s = client, wait_s

    def init_weight_transfer_engine(self, init_info: dict[str, Json]) -> None:
        """Open the channel; returns when the workers have met the learner."""
        self._do("/init_weight_transfer_engine", {"init_info": init_info})

    def start_weight_update(self) -> None:
        """Make the workers ready."""
        self._do("/start_weight_update", {})

    def update_weights(self, update_info: dict[str, Json]) -> None:
        """Receive; returns when the broadcast is over."""
        self._do("/update_weights", {"update_info": update_info})

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        """Put what was received into use; the stamp follows by itself."""
        self._do("/finish_weight_update", {} if weight_version is None else {"weight_version": weight_version})

    def _do(self, path: str, body: dict[str, Json]) -> None:
        self._client.post(path, body, _Done, may_repeat=False, timeout_s=self._wait_s)


class Transfer:
    """The learner's end of the channel."""

    def __init__(self, client: Client, model: PreTrainedModel, meeting: Meeting, wait_s: float) -> None:
        if any(isinstance(module, LoraLinear) for module in model.modules()):
            raise ConfigError('send = "transfer" takes no adapters; say send = "adapter"')
        if model.device.type != "cuda":
            raise ConfigError(f'send = "transfer" needs the model on a GPU, it is on {model.device}')
        num_workers = client.get("/get_world_size", _World, timeout_s=wait_s).world_size
        self._engine = WeightTransferTrainerFactory.trainer_init(
            init_info=NCCLTrainerInitInfo(
                master_address=meeting.master_address, master_port=meeting.master_port,
                world_size=num_workers + 1, rank=0,
            ),
            client=Verbs(client, wait_s),
            source=ModuleSource(model),
        )  # fmt: skip

    def send(self) -> None:
        """Start, update, finish."""
        try:
            self._engine.send_weights()
        except RuntimeError as error:  # what NCCL's failures are
            raise EngineError(f"weight transfer to vLLM failed: {error}") from error
