"""The contract of a decode path: tokens of many sequences go through the model, and their keys and values stay.

A *branch* is a sequence that the path remembers. It grows by what is fed to it; a fork sees what its parent holds
and grows by itself, without a copy where the path can share. The scheduler decides what is fed and when; a path
decides how it is stored and computed. A path may store in blocks, so only it can say whether tokens fit.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from torch import Tensor

from burnish.engine.adapters import Adapter
from burnish.engine.sampler import Draw


class Work(NamedTuple):
    """Tokens to append to a branch."""

    branch: int
    token_ids: Sequence[int]


class Steps(Protocol):
    """One way to run a model. Branches are numbers that it hands out; a dropped one is not used again."""

    @property
    def capacity(self) -> int:
        """How many tokens one branch can hold when there is no other."""
        ...

    def open(self, parent: int | None = None, length: int | None = None, *, adapter: str | None = None) -> int:
        """Open a branch: empty, or holding the first `length` tokens (all by default) of its parent; takes no room.

        What is fed to it is computed with the LoRA adapter of that name, which is also its parent's.
        """
        ...

    def put_adapter(self, name: str, adapter: Adapter) -> None:
        """Serve a LoRA adapter by name, in the place of one that has it; `ConfigError` if it is not of this model."""
        ...

    def drop(self, branch: int) -> None:
        """Forget a branch; what forks of it hold stays."""
        ...

    def fits(self, work: Sequence[Work]) -> bool:
        """Whether there is room to feed these now."""
        ...

    def feed(self, work: Sequence[Work], *, every_token: bool = False) -> Tensor:
        """Append tokens to branches (each branch once); returns hidden states `[N, D]` of each work's last token.

        With `every_token` those of all fed tokens, laid end to end.
        """
        ...

    def logits(self, hidden_N_D: Tensor) -> Tensor:
        """Apply the head; returns float32 `[N, V]`."""
        ...

    def draw(self, hidden_N_D: Tensor, temperatures_N: Tensor, uniforms_N: Tensor) -> Draw:
        """Draw a token for each row from softmax(logits / temperature), greedily where that is 0 (see `sampler`)."""
        ...

    def refresh(self) -> None:
        """Take over weights that may have changed. Branches keep the keys and values of the old ones."""
        ...
