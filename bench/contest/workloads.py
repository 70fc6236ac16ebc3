"""The work that all sides of a contest get: prompts and rows of random tokens, from seeds.

No package but Python's own, so that a peer's interpreter can make the same work.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

VOCABULARY = 49_152
FIRST_PLAIN_TOKEN = 1000
GROUP = 8
PROMPT = 128

Workload = Literal["sft", "grpo"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A prompt with a reply; the reply trains."""

    prompt_ids: tuple[int, ...]
    reply_ids: tuple[int, ...]
    reward: float

    @property
    def num_tokens(self) -> int:
        """Tokens of both."""
        return len(self.prompt_ids) + len(self.reply_ids)


def prompts_of(num_prompts: int, length: int, seed: int = 0) -> list[tuple[int, ...]]:
    """Prompts of equal length that have nothing in common."""
    draw = random.Random(seed)
    return [_ids(draw, length) for _ in range(num_prompts)]


def ragged_prompts(num_prompts: int) -> list[tuple[int, ...]]:
    """Prompts of 16 to 128 tokens."""
    draw = random.Random(0)
    return [_ids(draw, draw.randint(16, PROMPT)) for _ in range(num_prompts)]


def reply_lengths(num_requests: int, shortest: int, longest: int) -> list[int]:
    """How many tokens each request asks for: evenly spread, in an order that nobody knows before."""
    draw = random.Random(0)
    lengths = [shortest + round((longest - shortest) * i / max(1, num_requests - 1)) for i in range(num_requests)]
    draw.shuffle(lengths)
    return lengths


def rows_of(workload: Workload, num_tokens: int, *, in_random_order: bool = False) -> list[Sample]:
    """Ragged rows that together have about so many tokens; `sft` by length, or as they came.

    sft    30 to 600 tokens, a third of it prompt
    grpo   groups of 8 that share a prompt of 128 tokens, replies of 16 to 256
    """
    draw = random.Random(0)
    rows: list[Sample] = []
    while sum(row.num_tokens for row in rows) < num_tokens:
        if workload == "sft":
            length = min(600, max(30, round(draw.lognormvariate(5.2, 0.7))))
            rows.append(_sample(draw, _ids(draw, length // 3), length - length // 3))
        else:
            prompt = _ids(draw, PROMPT)
            rows += [_sample(draw, prompt, draw.randint(16, 256)) for _ in range(GROUP)]
    return sorted(rows, key=lambda row: row.num_tokens) if workload == "sft" and not in_random_order else rows


def num_tokens_of(rows: Sequence[Sample]) -> int:
    """Tokens of the rows: a prompt counts as often as rows have it, padding never."""
    return sum(row.num_tokens for row in rows)


def reward_of(text: str) -> float:
    """A reward that costs nothing and differs between replies: the share of letters that are vowels."""
    letters = [letter for letter in text.lower() if letter.isalpha()]
    return sum(letter in "aeiou" for letter in letters) / max(1, len(letters))


def _sample(draw: random.Random, prompt_ids: tuple[int, ...], num_new: int) -> Sample:
    return Sample(prompt_ids=prompt_ids, reply_ids=_ids(draw, num_new), reward=draw.random())


def _ids(draw: random.Random, length: int) -> tuple[int, ...]:
    return tuple(draw.randrange(FIRST_PLAIN_TOKEN, VOCABULARY) for _ in range(length))
