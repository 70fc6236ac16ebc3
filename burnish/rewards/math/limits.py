"""What one comparison may cost, and how it ends when that is not enough.

Decisions: sizes are capped where they arise (characters, tokens, nesting, digits, terms), and work is counted in
steps of about a microsecond; `bounded` sets the account of one comparison. Nothing here looks at a clock,
so an outcome is the same on a slow machine.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

MOST_CHARACTERS = 4_000
MOST_TOKENS = 1_500
DEEPEST = 40
MOST_BITS = 13_000
MOST_TERMS = 600
MOST_ITEMS = 60
MOST_STEPS = 250_000


class Unreadable(ValueError):
    """The text is no expression that is read here, or has no value; the message says why."""


class TooBig(Unreadable):
    """The text, or a value on the way, is beyond a limit."""


class Undecided(Exception):
    """Two values were read, and whether they are equal was not settled."""


_left: ContextVar[list[int] | None] = ContextVar("steps left of one comparison", default=None)


@contextmanager
def bounded(num_steps: int = MOST_STEPS) -> Iterator[None]:
    """Give what runs inside an account of steps; `TooBig` once it is used up."""
    token = _left.set([num_steps])
    try:
        yield
    finally:
        _left.reset(token)


def spend(num_steps: int) -> None:
    """Take steps from the account."""
    left = _left.get()
    if left is None:
        return
    left[0] -= num_steps
    if left[0] < 0:
        raise TooBig("more work than one comparison may cost")
