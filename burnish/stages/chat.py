"""Talk to a model in the terminal."""

import os

from burnish.core import plugins
from burnish.core.recipe import EngineConfig
from burnish.core.types import Message
from burnish.core.visible import visible
from burnish.engine.types import Request, SamplingParams
from burnish.models.load import load
from burnish.stages.session import open_chat
from burnish.stages.terminal import terminal


def chat(model: str) -> None:
    """Read lines, print replies, until the input ends."""
    loaded = load(model)
    template = open_chat(loaded)
    config = EngineConfig()
    engine = plugins.load("engine", config.use).open_engine(
        loaded.model, template, max_rows=config.max_rows, version=lambda: 0
    )
    params = SamplingParams(temperature=0.7, top_p=0.95, max_new_tokens=256)
    console = terminal()
    messages: list[Message] = []
    while (line := _ask()) is not None:
        messages.append(Message(role="user", content=line))
        request = Request(prompt_ids=template.prompt_ids(messages), seed=int.from_bytes(os.urandom(6)), params=params)
        reply = next(iter(engine.sample([request]))).completion.text
        console.print(visible(reply))
        messages.append(Message(role="assistant", content=reply))


def _ask() -> str | None:
    try:
        return input("> ")
    except EOFError:
        return None
