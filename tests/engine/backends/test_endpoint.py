"""Teachers and judges: text in, text out, and how probable given tokens are."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import torch

from burnish.core.errors import ConfigError, EngineError
from burnish.core.types import Message
from burnish.engine.endpoint import Endpoint, EndpointConfig
from burnish.engine.http_client import Lifeline
from burnish.engine.params import SamplingParams
from tests.engine.backends.model_server import ModelServer, fixture
from tests.fakes import plain_copy, random_model

ASK = [Message(role="user", content="hi")]


@pytest.fixture
def chat_server():
    """Answers each question from `answers`; keeps what it was sent."""
    answers, sent, headers = [], [], []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_POST(self):
            sent.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            headers.append(dict(self.headers))
            content = json.dumps(answers.pop(0) if answers else fixture("chat_completions")["response"]).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    server.answers, server.sent, server.headers = answers, sent, headers
    server.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    yield server
    server.shutdown()
    server.server_close()


def test_a_reply_is_asked_for_as_recorded(chat_server):
    endpoint = Endpoint(EndpointConfig(url=chat_server.url, model="m"))
    reply = endpoint.reply(ASK, SamplingParams(max_new_tokens=8), seed=1)
    assert reply == ("hello", "stop", 9, 2)
    assert chat_server.sent == [fixture("chat_completions")["request"]]


def test_the_key_comes_from_the_environment_variable_that_is_named(chat_server, monkeypatch):
    monkeypatch.setenv("BURNISH_TEST_KEY", "secret")
    endpoint = Endpoint(EndpointConfig(url=chat_server.url, model="m", api_key_env="BURNISH_TEST_KEY"))
    endpoint.reply(ASK, SamplingParams(), seed=1)
    assert chat_server.headers[0]["Authorization"] == "Bearer secret"


def test_a_reply_without_text_is_an_error(chat_server):
    answer = fixture("chat_completions")["response"]
    answer["choices"][0]["message"]["content"] = None
    chat_server.answers.append(answer)
    with pytest.raises(EngineError, match="gave no text"):
        Endpoint(EndpointConfig(url=chat_server.url, model="m")).reply(ASK, SamplingParams(), seed=1)


@pytest.mark.parametrize(
    ("params", "message"),
    [({"min_p": 0.1}, "not known to take min_p"), ({"top_k": 3}, "top_k"), ({"allowed_tokens": frozenset({1})}, "own")],
)
def test_what_an_endpoint_may_not_know_is_refused_and_not_sent(chat_server, params, message):
    endpoint = Endpoint(EndpointConfig(url=chat_server.url, model="m"))
    with pytest.raises(ConfigError, match=message):
        endpoint.reply(ASK, SamplingParams(**params), seed=1)
    assert chat_server.sent == []


def test_an_extended_endpoint_is_sent_min_p(chat_server):
    endpoint = Endpoint(EndpointConfig(url=chat_server.url, model="m", extended=True))
    endpoint.reply(ASK, SamplingParams(min_p=0.1), seed=1)
    assert chat_server.sent[0]["min_p"] == 0.1


def test_a_cut_lifeline_ends_a_question_that_waits():
    with ModelServer(random_model("llama"), dialect="vllm") as server:
        server.running.clear()
        endpoint, lifeline = Endpoint(EndpointConfig(url=server.url, model="m")), Lifeline()
        threading.Timer(0.2, lifeline.cut).start()
        with pytest.raises(EngineError, match="given up"):
            endpoint.score([1, 2, 3], [4], lifeline=lifeline)
        server.running.set()


def test_the_teacher_scores_given_tokens_as_the_model_does():
    model, prompt_ids, reply_ids = random_model("llama"), [5, 80, 200], [7, 100, 9]
    with ModelServer(model, dialect="vllm") as server:
        scores = Endpoint(EndpointConfig(url=server.url, model="m")).score(prompt_ids, reply_ids)
    with torch.inference_mode():
        logprobs_T_V = plain_copy(model)(torch.tensor([prompt_ids + reply_ids])).logits[0].log_softmax(-1)
    expected = [logprobs_T_V[2 + i, token_id].item() for i, token_id in enumerate(reply_ids)]
    assert scores == pytest.approx(expected, abs=1e-5)


def test_an_endpoint_that_scores_no_tokens_is_no_teacher(chat_server):
    answer = fixture("vllm_completions")["response"]
    del answer["choices"][0]["prompt_logprobs"]
    chat_server.answers.append(answer)
    with pytest.raises(ConfigError, match="does not say how probable given tokens are"):
        Endpoint(EndpointConfig(url=chat_server.url, model="m")).score([1, 2], [3])
