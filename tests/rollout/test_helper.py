"""A stronger policy behind an endpoint takes an episode over, over HTTP."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from burnish.core.recipe import EpisodesConfig
from burnish.domains import Tool
from burnish.rollout.helper import helper_of
from burnish.runtime.local import Background
from tests.fakes import ScriptedEngine, tiny_chat
from tests.rollout.guessing_domain import TOOL, Guessing
from tests.rollout.test_episodes import attempt_at, means_of, played


@contextmanager
def endpoint(says: Callable[[list[dict[str, str]]], str]) -> Iterator[tuple[str, list[list[dict[str, str]]]]]:
    """A server of chat completions; its address, and the conversations that it was sent."""
    sent: list[list[dict[str, str]]] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

        def do_POST(self) -> None:
            messages = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["messages"]
            sent.append(messages)
            choice = {"index": 0, "message": {"role": "assistant", "content": says(messages)}, "finish_reason": "stop"}
            content = json.dumps({"choices": [choice]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            with suppress(BrokenPipeError):  # whoever asked has given up
                self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1", sent
    server.shutdown()
    server.server_close()


def helped(url: str, domain: Guessing, **limits: float):
    config = EpisodesConfig.model_validate(
        {"at_limit": {"steps": "hand_over"}, "helper": {"url": url, "model": "strong", "timeout_s": 5}, **limits}
    )
    with Background() as background:
        engine = ScriptedEngine(tiny_chat(), lambda prompt, sample: "```guess 1\n```" if domain.tools else "1")
        means = means_of(engine, background, episodes=config, helper=helper_of(config))
        [one] = played(means, attempt_at(domain, 9))
    return one


@pytest.mark.parametrize("tools", [(), (TOOL,)])
def test_an_endpoint_sees_the_conversation_as_text_and_solves_the_task(tools: tuple[Tool, ...]) -> None:
    with endpoint(lambda messages: "```guess 9\n```" if tools else "9") as (url, sent):
        one = helped(url, Guessing(max_steps=2, tools=tools))
    [messages] = sent
    assert [each["role"] for each in messages][-4:] == ["assistant", "user", "assistant", "user"]
    assert messages[-1]["content"].startswith("up")
    assert one.verdict is not None and one.verdict.score == 1.0 and one.verdict.parts["turns_of_helper"] == 1
    assert one.num_sampled == sum(step.end - step.first for step in one.steps[:2])


def test_an_endpoint_that_is_not_there_is_a_fault_of_the_machinery_and_no_score() -> None:
    with endpoint(lambda messages: "") as (url, _):
        pass
    one = helped(url, Guessing(max_steps=1), wall_s=2.0)
    assert one.verdict is not None and one.verdict.kind in ("infrastructure_error", "timeout")
    assert one.verdict.score is None


def test_an_endpoint_that_never_answers_holds_up_no_episode_longer_than_its_time() -> None:
    silence = threading.Event()
    with endpoint(lambda messages: "9" if silence.wait(20) else "") as (url, _):
        one = helped(url, Guessing(max_steps=1), wall_s=0.3)
        silence.set()
    assert one.verdict is not None and one.verdict.kind == "timeout"
