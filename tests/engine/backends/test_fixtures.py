"""What is sent and read is what was recorded: a protocol cannot drift without one of these going red."""

from burnish.core.types import Json
from burnish.engine import openai_wire, sglang_wire
from burnish.engine.http_client import Lifeline
from burnish.engine.params import Constraint, SamplingParams
from burnish.engine.wire import Job
from tests.engine.backends.model_server import fixture

PARAMS = SamplingParams(max_new_tokens=2, top_logprobs=2)
STOPS = frozenset({258})


class Recorder:
    """A client that answers with a recorded answer and keeps what it was sent."""

    def __init__(self, name: str) -> None:
        self.recorded = fixture(name)
        self.sent: Json = None

    def post(self, path, body, answer, **_):
        assert path == self.recorded["path"]
        self.sent = body
        return answer.model_validate(self.recorded["response"])


def ask(name, wire_on, prompt_ids):
    """What a wire sends to a recorded server, what it should, and what it makes of the answer."""
    client = Recorder(name)
    job = Job(id="0-0", prompt_ids=prompt_ids, params=PARAMS, seed=5, label="v0", wants_prompt_logprobs=True)
    drawn = wire_on(client).draw(job, Lifeline())
    assert client.sent == client.recorded["request"]
    assert drawn.finish_reason == "length"
    assert drawn.prompt_length == 3
    return drawn


def test_vllm_is_asked_and_read_as_recorded():
    def wire_on(client):
        return openai_wire.CompletionsWire(client, "starter", frozenset({2}), salts_cache=True)

    drawn = ask("vllm_completions", wire_on, (1, 4093, 198))
    assert drawn.token_ids == (198, 3327)
    assert drawn.logprobs == (-2.4254744052886963, -5.196256637573242)
    assert drawn.prompt_logprobs == (-13.943575859069824, -3.321197986602783)
    assert drawn.top_logprobs == (
        ((198, -2.4254744052886963), (1604, -2.6464102268218994)),
        ((19, -2.216193914413452), (504, -2.9078481197357178)),
    )


def test_sglang_is_asked_and_read_as_recorded():
    drawn = ask("sglang_generate", lambda client: sglang_wire.SglangWire(client, STOPS, adapter=None), (1, 2, 3))
    assert drawn.token_ids == (97, 98)
    assert drawn.logprobs == (-0.5, -1.25)
    assert drawn.prompt_logprobs == (-2.5, -0.75)
    assert drawn.top_logprobs == (((97, -0.5), (99, -1.5)), ((97, -1.0), (98, -1.25)))


def test_what_a_server_would_fill_in_by_itself_is_always_sent():
    """Both servers take what is left out from the model's generation_config.json."""
    plain = {"temperature": 1.0, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0}
    assert openai_wire.sampling_options(SamplingParams()).items() >= (plain | {"top_k": 0}).items()
    assert sglang_wire.sampling_options(SamplingParams(), 0, STOPS).items() >= (plain | {"top_k": -1}).items()


def test_shaped_logits_are_asked_for_by_each_servers_names():
    params = SamplingParams(
        logit_bias=((7, -2.0),), repetition_penalty=1.2, constraint=Constraint(kind="regex", source="[ab]+")
    )
    vllm = openai_wire.sampling_options(params)
    assert vllm["logit_bias"] == {"7": -2.0}
    assert vllm["structured_outputs"] == {"regex": "[ab]+"}
    sglang = sglang_wire.sampling_options(params, 0, STOPS)
    assert sglang["repetition_penalty"] == 1.2
    assert sglang["regex"] == "[ab]+"
