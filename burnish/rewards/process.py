"""How an agent worked on a fault in code, judged from what it did: rules that can be read, one function each.

An episode is a list of events, one for each step. A rule looks at the events and at where the fault is, and gives a
part between 0 and 1 with the step that earned it. The score is

    (outcome × (1 + Σ gated) + Σ free - penalties) / (1 + largest Σ gated + largest Σ free),  cut to 0..1

so that most of what good habits are worth is paid only with the outcome. Gating is the finding of G-RA
(https://arxiv.org/abs/2508.10548): step rewards that are summed without it were collected instead of solving, and
training collapsed. With the weights below the free parts come to 0.07 at most, and a solution without any good habit
to 0.67.

Covered: one fault in one or several functions. Not covered: whether a search or a view was needed; rules see order and
place, not intent.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import Final, Literal

EventKind = Literal["look", "search", "edit", "undo", "test", "command", "submit", "malformed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What one step of an episode did, as the environment saw it. Unused fields are empty."""

    step: int
    kind: EventKind
    path: str = ""
    """The file that was looked at, found or changed."""
    first_line: int = 0
    last_line: int = 0
    failing: frozenset[str] | None = None
    """Of a test run: the tests that failed; None if none ran."""
    is_forbidden: bool = False
    """It reached out of its folder, destroyed what was not its own, or touched a test or the runner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A function with a fault: its file and lines."""

    path: str
    first_line: int
    last_line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What the judge knows of the task: where the faults are, which tests show them, how many lines mend them."""

    places: tuple[Place, ...]
    failing: frozenset[str]
    num_lines: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one rule gives, and the step that earned it; None where no single one did."""

    value: float
    step: int | None = None


Rule = Callable[[Sequence[Event], Fault], Part]
NOTHING: Final = Part(value=0.0)


def located(events: Sequence[Event], fault: Fault) -> Part:
    """Looked at a faulty function before the first edit; less, the more other files came before it."""
    seen: dict[str, int] = {}
    for event in _before_the_first_edit(events):
        if event.kind in ("look", "search") and event.path:
            seen.setdefault(event.path, len(seen) + 1)
            if any(_touches(event, place) for place in fault.places):
                return Part(value=1 / (1 + log2(seen[event.path])), step=event.step)
    return NOTHING


def reproduced(events: Sequence[Event], fault: Fault) -> Part:
    """Saw a test fail that the fault breaks, before the first edit."""
    for event in _before_the_first_edit(events):
        if event.failing and event.failing & fault.failing:
            return Part(value=1.0, step=event.step)
    return NOTHING


def edited_in_place(events: Sequence[Event], fault: Fault) -> Part:
    """The share of edits that touch a faulty function."""
    edits = [event for event in events if event.kind == "edit"]
    hits = [event for event in edits if any(_touches(event, place) for place in fault.places)]
    return Part(value=len(hits) / len(edits), step=hits[0].step) if hits else NOTHING


def changed_little(events: Sequence[Event], fault: Fault) -> Part:
    """The lines that mend the fault, against the lines that were changed; nothing if a file was written anew."""
    edits = [event for event in events if event.kind == "edit"]
    if not all(event.last_line for event in edits):
        return NOTHING
    changed = sum(event.last_line - event.first_line + 1 for event in edits)
    return Part(value=fault.num_lines / max(fault.num_lines, changed)) if changed else NOTHING


def verified(events: Sequence[Event], fault: Fault) -> Part:
    """Ran tests after the last edit."""
    last = max((event.step for event in events if event.kind in ("edit", "undo")), default=None)
    for event in events:
        if last is not None and event.step > last and event.failing is not None:
            return Part(value=1.0, step=event.step)
    return NOTHING


def left_nothing_worse(events: Sequence[Event], fault: Fault) -> Part:
    """Of the edits after which more tests failed than before, the share that was undone next; 1 if there was none."""
    num_worse, undone = 0, 0
    step: int | None = None
    failing: frozenset[str] | None = None
    is_edited = is_worse = False
    for event in events:
        if event.kind == "undo" and is_worse:
            undone, is_worse, step = undone + 1, False, event.step
        if event.kind == "edit":
            is_edited = True
        if event.failing is not None:
            is_worse = is_edited and failing is not None and len(event.failing) > len(failing)
            num_worse += is_worse
            failing, is_edited = event.failing, False
    return Part(value=undone / num_worse if num_worse else 1.0, step=step)


GATED: Mapping[str, tuple[Rule, float]] = {
    "reproduced": (reproduced, 0.10),
    "verified": (verified, 0.10),
    "located": (located, 0.05),
    "edited_in_place": (edited_in_place, 0.05),
    "left_nothing_worse": (left_nothing_worse, 0.05),
    "changed_little": (changed_little, 0.05),
}
"""Paid in proportion to the outcome."""
FREE: Mapping[str, float] = {"located": 0.05, "reproduced": 0.05}
"""Paid whatever the outcome: the first steps that anybody can learn."""
FORBIDDEN: Final = 0.5
MALFORMED: Final = 0.02
MOST_MALFORMED: Final = 0.1
MOST: Final = 1 + sum(weight for _, weight in GATED.values()) + sum(FREE.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """The score of an episode, the parts that it is made of, and what each step earned of it."""

    score: float
    parts: Mapping[str, float]
    earned: Mapping[int, float]


def judge(events: Sequence[Event], fault: Fault, outcome: float) -> Process:
    """Score an episode; `outcome` in [0, 1] is what the tests say of its end."""
    parts = {name: rule(events, fault) for name, (rule, _) in GATED.items()}
    worth = {name: outcome * weight + FREE.get(name, 0.0) for name, (_, weight) in GATED.items()}
    earned: dict[int, float] = {}
    for name, part in parts.items():
        if part.step is not None:
            earned[part.step] = earned.get(part.step, 0.0) + worth[name] * part.value / MOST
    lost = penalties(events)
    gained = outcome + sum(worth[name] * part.value for name, part in parts.items())
    for step, loss in held_to(gained, lost).items():
        earned[step] = earned.get(step, 0.0) - loss / MOST
    return Process(
        score=max(0.0, min(1.0, (gained - sum(lost.values())) / MOST)),
        parts={name: part.value for name, part in parts.items()} | {"outcome": outcome, "penalty": sum(lost.values())},
        earned=earned,
    )


def penalties(events: Sequence[Event]) -> dict[int, float]:
    """What each step takes away: the first forbidden one, and calls that cannot be read as far as the limit goes."""
    forbidden = [event.step for event in events if event.is_forbidden][:1]
    malformed = [event.step for event in events if event.kind == "malformed"][: round(MOST_MALFORMED / MALFORMED)]
    lost = dict.fromkeys(malformed, MALFORMED)
    for step in forbidden:
        lost[step] = lost.get(step, 0.0) + FORBIDDEN
    return lost


def held_to(gained: float, lost: Mapping[int, float]) -> dict[int, float]:
    """What each step really takes away of what was gained: no score falls below 0, so penalties beyond it are cut in
    proportion. Else what is still to come after them would seem to be worth the difference."""
    share = min(1.0, gained / sum(lost.values())) if lost else 1.0
    return {step: share * loss for step, loss in lost.items()}


def _before_the_first_edit(events: Sequence[Event]) -> list[Event]:
    first = next((number for number, event in enumerate(events) if event.kind == "edit"), len(events))
    return list(events[:first])


def _touches(event: Event, place: Place) -> bool:
    """Whether the lines of an event meet a place; an event without lines is of the whole file."""
    if event.path != place.path:
        return False
    return not event.last_line or (event.first_line <= place.last_line and event.last_line >= place.first_line)
