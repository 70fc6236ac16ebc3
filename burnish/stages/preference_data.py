"""Stored preferences from a JSONL file: pairs of replies to a prompt, or replies with a label.

A pair has `prompt`, `chosen` and `rejected`, and may have `margin` (by how much the first is better, for reward
models); a labelled reply has `prompt`, `reply` and `label` (whether it is desirable). A prompt is a text or a list of
messages with `role` and `content`. The whole file is read and checked when it is opened; the first fault is one
message. What trains is kept apart from what measures: no prompt may be in both files, and lines with a prompt of the
run's own evaluation are left out of training; a stage that goes on after a kill refuses other files than it began
with. Not covered: files larger than memory.
"""

import json
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, Generic, NamedTuple, Self, TypeVar

from pydantic import Field, model_validator

from burnish.chat.template import Chat
from burnish.core.config import validate
from burnish.core.errors import ConfigError
from burnish.core.prompted import Prompted
from burnish.learner.packing import Row
from burnish.stages.kept_data import keep_or_compare
from burnish.stages.session import Session

PREFERRED, OTHER = 1.0, -1.0
"""What marks a row's tokens for an objective of preferences."""


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


class Split(NamedTuple, Generic[L]):
    """Lines that train, lines that never do, and how many were left out because the run is evaluated on them."""

    train: list[L]
    held_out: list[L]
    num_left_out: int


def read_split(data: str, eval_data: str, kind: type[L], never_train: AbstractSet[str]) -> Split[L]:
    """Read both files (the second may be ''); `never_train` are hashes of prompts."""
    lines, held_out = read(data, kind), read(eval_data, kind) if eval_data else []
    shared = {line.prompt_hash for line in lines} & {line.prompt_hash for line in held_out}
    if shared:
        raise ConfigError(
            f"{eval_data}: {len(shared)} of its prompts are in {data} too, so that it measures what was trained on; "
            "leave them out of one of the two"
        )
    train = [line for line in lines if line.prompt_hash not in never_train]
    if not train:
        raise ConfigError(f"{data}: every prompt is a held-out task of this recipe; give other lines")
    return Split(train, held_out, len(lines) - len(train))


def open_split(session: Session, data: str, eval_data: str, kind: type[L]) -> Split[L]:
    """Both files of a stage, which must be those that it began with; says on the console what it leaves out."""
    split = read_split(data, eval_data, kind, session.held_out_prompts())
    keep_or_compare(session, {name: Path(name) for name in (data, eval_data) if name})
    if split.num_left_out:
        session.console.print(
            f"{session.stage_name}: leaving out {split.num_left_out} lines, whose prompts are held-out tasks"
        )
    return split


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
