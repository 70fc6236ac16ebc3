"""Talk to a model in the terminal."""

import os

from rich.console import Console

from burnish.chat.template import Chat
from burnish.core import plugins
from burnish.core.recipe import EngineConfig
from burnish.core.types import Completion, Message
from burnish.core.visible import visible
from burnish.engine.types import Failed, Finished, LiveEngine, Request, Sampled, SamplingParams
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
    ids: tuple[int, ...] = ()
    while (line := _ask()) is not None:
        said = [Message(role="user", content=line)]
        ids = template.continue_ids(ids, said) if ids else template.prompt_ids(said)
        request = Request(prompt_ids=ids, seed=int.from_bytes(os.urandom(6)), params=params)
        ids += _reply(engine, template, request, console).token_ids


def _reply(engine: LiveEngine, template: Chat, request: Request, console: Console) -> Completion:
    """Print a reply as it comes; a character whose last bytes are still to come waits for them."""
    engine.submit(request)
    token_ids: list[int] = []
    shown = ""
    while True:
        for event in engine.step():
            if isinstance(event, Failed):
                raise event.error
            if isinstance(event, Sampled):
                token_ids.append(event.token_id)
                text = template.decode(token_ids).rstrip("\N{REPLACEMENT CHARACTER}")
            else:
                text = event.completion.text
            if text.startswith(shown):
                console.print(visible(text[len(shown) :]), end="", soft_wrap=True)
                shown = text
            if isinstance(event, Finished):
                console.print()
                return event.completion


def _ask() -> str | None:
    try:
        return input("> ")
    except EOFError:
        return None
