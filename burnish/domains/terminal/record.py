"""What happened in an episode: the events of each step, which lines changed, what was undone."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

from burnish.core.types import Json
from burnish.domains.terminal.edits import touched
from burnish.rewards.artifacts import matches
from burnish.rewards.process import Event

IGNORED: Final = (
    ".git/",
    ".gitconfig",
    ".pytest_cache/",
    ".cache/",
    ".config/",
    ".local/",
    ".bash_history",
    ".python_history",
)
"""What tools leave behind by themselves; neither an edit nor part of what is judged."""


def is_ignored(name: str) -> bool:
    """Whether a file is nobody's work."""
    return name.startswith(IGNORED) or "__pycache__" in name.split("/") or name.endswith(".pyc")


@dataclass(slots=True, kw_only=True)
class Record:
    """See the module's docstring. Contents are texts, None where there is no file, or none that can be read."""

    protected: Sequence[str]
    steps: list[list[Event]] = field(default_factory=list[list[Event]])
    succeeded: list[bool] = field(default_factory=list[bool])
    """Of each step, whether it did what was asked."""
    _start: dict[str, str | None] = field(default_factory=dict[str, str | None])
    _past: dict[str, list[str | None]] = field(default_factory=dict[str, list[str | None]])

    @property
    def events(self) -> list[Event]:
        """All events, in order."""
        return [event for step in self.steps for event in step]

    def now(self, name: str) -> str | None:
        """What a file says, as far as is known."""
        return self._past[name][-1] if name in self._past else self._start.get(name)

    def knows(self, name: str) -> bool:
        """Whether a file's content was ever seen."""
        return name in self._start

    def saw(self, name: str, content: str | None) -> None:
        """Note what a file said at the start."""
        self._start.setdefault(name, content)

    def changed(self, step: int, name: str, new: str | None) -> Event | None:
        """Note a change; the event that it is, or None if there is none. Going back to what was is an undo."""
        old = self.now(name)
        if old == new and self.knows(name):
            return None
        past = self._past.setdefault(name, [self._start.setdefault(name, None)])
        lines = touched(old, new, self._start[name])
        is_undo = new in past[:-1]
        if is_undo:
            del past[len(past) - past[::-1].index(new) :]
        else:
            past.append(new)
        return Event(
            step=step, kind="undo" if is_undo else "edit", path=name, first_line=lines.first, last_line=lines.last,
            is_forbidden=self.is_protected(name),
        )  # fmt: skip

    def earlier(self, name: str) -> Sequence[str | None]:
        """What a file said before its last change, if that is known: one content, or none."""
        return self._past.get(name, [])[-2:-1]

    def is_protected(self, name: str) -> bool:
        """Whether the agent must leave a file alone."""
        return any(matches(name, pattern) for pattern in self.protected)

    def end_step(self, events: Sequence[Event], *, succeeded: bool) -> None:
        """Close a step."""
        self.steps.append(list(events))
        self.succeeded.append(succeeded)

    def metrics(self) -> dict[str, float]:
        """How the work went, whatever came of it."""
        num = len(self.steps)
        kinds = [event.kind for event in self.events]
        num_failed = self.succeeded.count(False)
        recovered = sum(not here and after for here, after in zip(self.succeeded, self.succeeded[1:], strict=False))
        return {
            "num_steps": float(num),
            "num_malformed": float(kinds.count("malformed")),
            "tool_call_accuracy": 1 - kinds.count("malformed") / num if num else 0.0,
            "step_success": self.succeeded.count(True) / num if num else 0.0,
            "recovery": recovered / num_failed if num_failed else 1.0,
            "edits_undone": kinds.count("undo") / kinds.count("edit") if "edit" in kinds else 0.0,
        }


def as_json(event: Event) -> Mapping[str, Json]:
    """An event as the trajectory keeps it."""
    failing = None if event.failing is None else list[Json](sorted(event.failing))
    return {**asdict(event), "failing": failing}
