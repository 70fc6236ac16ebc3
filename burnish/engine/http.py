"""Any endpoint that speaks `/v1/completions` with token ids on both sides, sampled from as it is: for evaluation.

Its weights are its own, so nothing that trains samples from it: a recipe with a stage that trains is refused, and so
is a policy that has moved. An endpoint that gives text only (most commercial ones) is no engine: token ids that were
made of its text are not what it sampled. It can be a teacher or a judge (`endpoint.Endpoint`).
"""

from collections.abc import Callable, Mapping

from transformers import PreTrainedModel

from burnish.chat.template import Chat
from burnish.core.config import validate
from burnish.core.errors import ConfigError
from burnish.core.types import Json, Message
from burnish.engine.http_client import Client, Lifeline, Refused, Server
from burnish.engine.openai_wire import CompletionsWire, served_model
from burnish.engine.params import SamplingParams
from burnish.engine.served import Place, ServedEngine, shortest
from burnish.engine.types import LiveEngine
from burnish.engine.weight_sync import FixedWeights
from burnish.engine.wire import Job

FROZEN = True
"""Nothing that trains may sample from this engine."""


class Config(Server):
    """Options of `http`."""

    model: str = ""
    """The name that the endpoint knows the model by; default: the only one that it serves."""


def open_engine(
    model: PreTrainedModel, chat: Chat, *, max_rows: int, version: Callable[[], int], options: Mapping[str, Json]
) -> LiveEngine:
    """Open the engine: `ConfigError` if the endpoint gives no token ids."""
    config = validate(Config, options, "options of engine 'http'")
    client = Client(config)
    card = served_model(client, config.model)
    wire = CompletionsWire(client, card.id, chat.stop_ids, salts_cache=False)
    _prove_tokens(wire, chat, client.name)
    return ServedEngine(
        Place(
            name="http", wire=wire, weights=FixedWeights(version), chat=chat, max_rows=max_rows,
            most_tokens=shortest(model, card.max_model_len),
        )
    )  # fmt: skip


def _prove_tokens(wire: CompletionsWire, chat: Chat, name: str) -> None:
    prompt_ids = chat.prompt_ids([Message(role="user", content="Name a colour.")])
    job = Job(id="probe", prompt_ids=prompt_ids, params=SamplingParams(max_new_tokens=1), seed=0, label="")
    way_out = (
        "an engine needs both; use such an endpoint as a teacher or judge (burnish.engine.endpoint.Endpoint), or "
        "serve the model by vLLM"
    )
    try:
        drawn = wire.draw(job, Lifeline())
    except Refused as error:
        raise ConfigError(f"{name} takes no token ids ({error}); {way_out}") from None
    if not drawn.token_ids or not drawn.logprobs or drawn.prompt_length is None:
        raise ConfigError(f"{name} gives no token ids, or no log-probabilities, of what it samples; {way_out}")
