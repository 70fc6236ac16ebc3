"""One task of the domain `code`, to double a number, and what a reply to it is worth."""

import asyncio

from burnish.core.types import Message, Task, Verdict
from burnish.domains import code
from burnish.sandbox import Box

TASK = Task(
    id="code/train/1/0",
    domain="code",
    messages=(Message(role="user", content="double"),),
    truth={
        "function": "double",
        "shown": [50],
        "shown_value": 100,
        "calls": [[0], [1], [2], [3]],
        "expected": [0, 2, 4, 6],
        "family": "linear",
        "variant": 0,
        "constants": {"k": 2, "m": 0},
    },
)
DOUBLE = "def double(n):\n    return n * 2"


def verdict_on(reply: str, box: Box, task: Task = TASK) -> Verdict:
    """Judge a reply as the domain does."""
    return asyncio.run(code.Code().verify(task, reply, box))
