"""Stored preferences from a JSONL file: pairs of replies to a prompt, or replies with a label.

A pair has `prompt`, `chosen` and `rejected`, and may have `margin` (by how much the first is better, for reward
models); a labelled reply has `prompt`, `reply` and `label` (whether it is desirable). A prompt is a text or a list of
messages with `role` and `content`. The whole file is read and checked when it is opened; the first fault is one
message. Not covered: files larger than memory.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import Field, field_validator, model_validator

from burnish.chat.template import Chat
from burnish.core.config import Strict, validate
from burnish.core.errors import ConfigError
from burnish.core.types import Message, Role
from burnish.learner.packing import Row

PREFERRED, OTHER = 1.0, -1.0
"""What marks a row's tokens for an objective of preferences."""


class Turn(Strict):
    """One message of a prompt."""

    role: Role
    content: str


class Prompted(Strict):
    """What all lines have."""

    prompt: tuple[Turn, ...]

    @field_validator("prompt", mode="before")
    @classmethod
    def _a_string_is_the_users_turn(cls, prompt: object) -> object:
        if isinstance(prompt, str) and prompt.strip():
            return ({"role": "user", "content": prompt},)
        if isinstance(prompt, list) and prompt:
            return tuple(prompt)
        raise ValueError("expected a text, or a list of messages with role and content")

    @property
    def messages(self) -> tuple[Message, ...]:
        """The prompt as the record that templates take."""
        return tuple(Message(role=turn.role, content=turn.content) for turn in self.prompt)


class PairLine(Prompted):
    """Two replies, the better one first."""

    chosen: str
    rejected: str
    margin: float = Field(0.0, ge=0)

    @model_validator(mode="after")
    def _the_replies_differ(self) -> Self:
        if self.chosen == self.rejected:
            raise ValueError("chosen and rejected are the same text, so that nothing is preferred; leave the line out")
        return self


class ReplyLine(Prompted):
    """One reply, and whether it is desirable."""

    reply: str
    label: bool


L = TypeVar("L", bound=Prompted)


def read(path: str, kind: type[L]) -> list[L]:
    """Read a whole file of one kind of line."""
    lines = [validate(kind, data, where) for where, data in _objects(Path(path))]
    if not lines:
        raise ConfigError(f"{path}: the file has no rows; expected one JSON object a line, with {_keys(kind)}")
    return lines


def pair_rows(chat: Chat, line: PairLine) -> list[Row]:
    """The two rows of a pair, the preferred one first."""
    return [_row(chat, line, line.chosen, PREFERRED), _row(chat, line, line.rejected, OTHER)]


def reply_row(chat: Chat, line: ReplyLine) -> Row:
    """The row of a labelled reply."""
    return _row(chat, line, line.reply, PREFERRED if line.label else OTHER)


def _row(chat: Chat, line: Prompted, reply: str, mark: float) -> Row:
    shown = chat.demonstration(line.messages, reply)
    return Row(token_ids=shown.token_ids, was_sampled=shown.was_sampled, advantage=mark)


def _objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"no file {str(path)!r} in {str(Path.cwd())!r}; give the path of a JSONL file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {str(path)!r}: {error}") from None
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            data = json.loads(line)
        except json.JSONDecodeError as error:
            raise ConfigError(f"{where}: not JSON: {error}") from None
        if not isinstance(data, dict):
            raise ConfigError(f"{where}: expected an object with names, got {line[:60]!r}")
        yield where, data


def _keys(kind: type[Prompted]) -> str:
    return ", ".join(name for name, field in kind.model_fields.items() if field.is_required())
