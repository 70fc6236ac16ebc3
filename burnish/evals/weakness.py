"""What replies that know nothing earn: an empty one, the prompt said back, and constants.

A task set is *weak* if one of them passes above chance: Wilson's 95 % interval of its mean lies above what a guess may
score. A weak suite measures the baseline before it measures a model; a weak task set pays for a fixed text.
Constants are `CONSTANTS` and the commonest right replies of the tasks at hand (the majority answer). Nothing is
corrected for how many are tried: a false "weak" costs a look at the tasks, a false "sound" costs a promise.
Not covered: replies that look at the prompt in other ways, such as its longest word.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from burnish.core.interval import Interval
from burnish.core.types import Task, Verdict
from burnish.evals.statistics import wilson

CLAIM = "a reply that knows nothing earns no more than chance"
CONSTANTS = (
    "yes", "no", "true", "false", "0", "1", "2", "10", "A", "B", "C", "[]", "{}", "null", "none", "unknown",
    "I'm sorry, but I can't help with that.", "Sure, here is the answer.", "ok",
)  # fmt: skip
NUM_MAJORITY = 3
MOST_SHOWN = 40

Ask = Callable[[Task, str], Awaitable[Verdict]]
"""Judges a reply to a task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """A way to reply without knowing anything, and what it earned."""

    name: str
    earned: Interval

    def is_weak(self, chance: float) -> bool:
        """Whether it passes above chance."""
        return self.earned.low > chance

    def __str__(self) -> str:
        return f"{self.name} scores {self.earned.mean:.2f} (95 % {self.earned.low:.2f} to {self.earned.high:.2f})"


def replies(tasks: Sequence[Task]) -> dict[str, Callable[[Task], str]]:
    """The ways to reply, by name."""
    golds = Counter(task.gold for task in tasks if task.gold is not None)
    majority = [gold for gold, num in golds.most_common(NUM_MAJORITY) if num > 1]
    constants = dict.fromkeys([*CONSTANTS, *majority])
    ways: dict[str, Callable[[Task], str]] = {
        "the empty reply": lambda task: "",
        "the prompt said back": lambda task: task.messages[-1].content,
        "the prompt's last line": lambda task: task.messages[-1].content.strip().rpartition("\n")[2],
        "the prompt's last word": lambda task: task.messages[-1].content.split()[-1].strip("()[]{}<>\"'`*.,;:!?"),
    }
    return ways | {f"the constant {_brief(text)!r}": lambda task, text=text: text for text in constants}


async def baselines(tasks: Sequence[Task], ask: Ask) -> list[Baseline]:
    """What each way to reply earns on the tasks, the best first; what is not scored earns nothing."""
    if not tasks:
        return []
    found: list[Baseline] = []
    for name, reply in replies(tasks).items():
        verdicts = await asyncio.gather(*(ask(task, reply(task)) for task in tasks))
        mean = sum(verdict.score or 0.0 for verdict in verdicts) / len(tasks)
        low, high = wilson(mean, len(tasks))
        found.append(Baseline(name=name, earned=Interval(mean=mean, low=low, high=high, n=len(tasks))))
    return sorted(found, key=lambda baseline: -baseline.earned.mean)


def weak(found: Sequence[Baseline], chance: float) -> list[Baseline]:
    """Those that pass above chance."""
    return [baseline for baseline in found if baseline.is_weak(chance)]


def as_json(found: Sequence[Baseline], chance: float) -> list[Mapping[str, str | float | bool]]:
    """For machines."""
    return [{"reply": each.name, "mean": each.earned.mean, "is_weak": each.is_weak(chance)} for each in found]


def _brief(text: str) -> str:
    return text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN] + "..."
