"""What a tool of the terminal did."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from burnish.core.types import Json
from burnish.rewards.process import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the policy is told, what happened, whether it did what was asked; `whole` is all of a text that was cut."""

    text: str
    events: Sequence[Event] = ()
    succeeded: bool = True
    done: bool = False
    whole: str | None = None


Tool = Callable[[Mapping[str, Json], int], Awaitable[Told]]
"""From the arguments of a call and the number of the step."""


def whole_number(value: Json) -> int:
    """An argument that the tool's schema has as a whole number; 0 where it was left out."""
    return value if isinstance(value, int) else 0
