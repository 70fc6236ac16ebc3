"""A place in the tokens of an answer: what stands there, steps over it, and how deep the parse is nested."""

from collections.abc import Callable, Sequence
from typing import NoReturn, TypeVar

from burnish.rewards.math.limits import DEEPEST, TooBig, Unreadable, spend
from burnish.rewards.math.tokens import END, Token

T = TypeVar("T")


class Cursor:
    """Where a parse stands; every step is paid for."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._depth = 0
        self.position = 0

    @property
    def now(self) -> Token:
        """What stands here; `END` behind the last."""
        return self.ahead(0)

    def ahead(self, distance: int) -> Token:
        """What stands further on."""
        at = self.position + distance
        return self._tokens[at] if at < len(self._tokens) else END

    def since(self, start: int) -> Sequence[Token]:
        """What was stepped over since a position."""
        return self._tokens[start : self.position]

    def step(self) -> Token:
        """Take what stands here."""
        token = self.now
        self.position += 1
        spend(4)
        return token

    def holds(self, *signs: str) -> bool:
        """Whether one of these signs or commands stands here."""
        return self.now.kind in ("sign", "command") and self.now.text in signs

    def take(self, *signs: str) -> bool:
        """Step over one of these, if it stands here."""
        if not self.holds(*signs):
            return False
        self.position += 1
        return True

    def expect(self, *signs: str) -> str:
        """Step over one of these, or fail."""
        if not self.holds(*signs):
            self.fail(" or ".join(signs))
        return self.step().text

    def read_as(self, token: Token) -> None:
        """Let another token stand here."""
        self._tokens[self.position] = token

    def fail(self, expected: str) -> NoReturn:
        """What stands here does not fit."""
        raise Unreadable(f"got {self.now.text[:30]!a}, expected {expected}")

    def nested(self, what: Callable[[], T]) -> T:
        """Parse one level deeper."""
        self._depth += 1
        if self._depth > DEEPEST:
            raise TooBig(f"nested deeper than {DEEPEST}")
        node = what()
        self._depth -= 1
        return node
