"""A stronger policy that takes an episode over, behind an OpenAI-compatible endpoint.

It sees the conversation as text; results of tools come to it as a user's messages, since the calls before them were
text too. What it says is given to the policy's stream of tokens and never trains.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from burnish.core.config import validate
from burnish.core.recipe import EpisodesConfig
from burnish.core.types import Message
from burnish.engine.endpoint import Endpoint, EndpointConfig
from burnish.engine.http_client import Lifeline
from burnish.engine.types import SamplingParams
from burnish.rollout.means import Helper

TURN: Final = SamplingParams(temperature=0.0, max_new_tokens=1024)


def helper_of(config: EpisodesConfig) -> Helper | None:
    """Open the helper that the recipe names; `ConfigError` if its options are none of an endpoint."""
    if not config.helper:
        return None
    endpoint = Endpoint(validate(EndpointConfig, config.helper, "episodes.helper"))

    async def says(messages: Sequence[Message]) -> str:
        told = [replace(message, role="user") if message.role == "tool" else message for message in messages]
        lifeline = Lifeline()
        try:
            return (await asyncio.to_thread(endpoint.reply, told, TURN, seed=0, lifeline=lifeline)).text
        finally:
            lifeline.cut()

    return says
