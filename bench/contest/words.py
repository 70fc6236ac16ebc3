"""Prompts as text that a tokenizer cuts into exactly so many tokens, for trainers that take no ids.

No package but Python's own; the tokenizer is the caller's.
"""

import random
import re
from typing import Protocol

WORD = re.compile("\u0120[a-z]{3,}")  # byte-level tokenizers write the space before a word as this letter


class Tokenizer(Protocol):
    """What is used of transformers' tokenizers."""

    def get_vocab(self) -> dict[str, int]:
        """Ids by token."""
        ...

    def __call__(self, text: str) -> dict[str, list[int]]:
        """Ids of a text."""
        ...


def texts_of(tokenizer: Tokenizer, num_texts: int, num_tokens: int) -> list[str]:
    """Random words, each a token; a text whose tokens come out otherwise is drawn again."""
    words = sorted(token[1:] for token in tokenizer.get_vocab() if WORD.fullmatch(token))
    draw = random.Random(0)
    texts: list[str] = []
    while len(texts) < num_texts:
        text = "".join(f" {draw.choice(words)}" for _ in range(num_tokens))
        if len(tokenizer(text)["input_ids"]) == num_tokens:
            texts.append(text)
    return texts
