"""In which order stored items are gone through."""

import random
from collections.abc import Sequence
from typing import TypeVar

from burnish.core.seeds import derive

T = TypeVar("T")


def epochs(items: Sequence[T], num_epochs: int, batch_size: int, seed: int) -> list[list[T]]:
    """Batches of all items, each epoch in an order of its own."""
    order: list[T] = []
    for epoch in range(num_epochs):
        one = list(items)
        random.Random(derive(seed, "order", epoch)).shuffle(one)
        order += one
    return [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
