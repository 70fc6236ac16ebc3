"""What a guard looks at: held-out tasks of the recipe's domains, and suites as `burnish eval --suite` knows them.

A word of `suites` is a name that tasks of the recipe are reported under, else a suite, a layer, or a suite's file.

Decisions:
- Held-out tasks are answered once each, greedily, as stage `evaluate` does it. A suite is answered as it says itself,
  by the same draws as in `burnish eval`; of several replies to a task the mean of the scores counts.
- A suite has a sandbox of its own while it is answered; the policy and its engine are the run's.
- What a guard asks never trains in its stage. A suite that an earlier stage trained on is refused, or loses those tasks
  where it says `when_trained = "leave_out"`.

Not covered: tasks of lm-evaluation-harness, whose own code wants the model for itself.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import NamedTuple

from rich.console import Console

from burnish.core.errors import ConfigError
from burnish.core.recipe import TaskEntry
from burnish.core.types import Json
from burnish.evals.guarding import Guarded
from burnish.evals.samples import averaged
from burnish.evals.suites import LM_EVAL, OpenSuite, Suite, drawn, named
from burnish.rollout.mixture import Draw, held_out
from burnish.stages.eval_models import replies_of, with_sandbox
from burnish.stages.eval_suite import result_of_reply
from burnish.stages.evaluate import evaluate, result_json, result_of
from burnish.stages.guard_config import GuardConfig
from burnish.stages.session import Session, open_sources
from burnish.stages.trained_on import trained_prompts


class Named(NamedTuple):
    """One of the things that a guard names; without a suite it is the tasks that are reported under the name."""

    name: str
    margin: float
    suite: Suite | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A guarded suite: its tasks in the order in which they are looked at."""

    name: str
    margin: float
    draws: Sequence[Draw]
    opened: OpenSuite | None = None

    @property
    def guarded(self) -> Guarded:
        """As the rules of a gate know it."""
        return Guarded(self.name, [draw.task.source or draw.task.id for draw in self.draws], self.margin)

    def chunks(self, num: int, look_every: int) -> list[Sequence[Draw]]:
        """The first so many tasks, cut where one looks."""
        ends = [end for end in self.guarded.looks(look_every) if end <= num]
        return [self.draws[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def named_suites(config: GuardConfig, entries: Sequence[TaskEntry]) -> list[Named]:
    """What a guard names, layers one by one; `ConfigError` for what is not there, is named twice, or was to be held
    out from what trains."""
    found = [one for word in config.suites for one in _named(config, word, {entry.report_name for entry in entries})]
    names = [one.name for one in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"stage 'rl': guard.suites comes to {twice[0]!r} twice; name it once")
    if unknown := sorted(config.margins.keys() - {*names, *config.suites}):
        raise ConfigError(
            f"stage 'rl': guard.margins has {unknown[0]!r}, and guarded are: {', '.join(names)}; name it in suites, or "
            "leave it out"
        )
    for one in found:
        _refuse_held_out(one, entries)
    return found


def open_asked(session: Session, config: GuardConfig) -> list[Asked]:
    """Open what a guard names and draw its tasks."""
    return [_open(session, one, session.console, is_asked=True) for one in named_suites(config, session.recipe.tasks)]


def guarded_prompts(session: Session, config: GuardConfig | None) -> frozenset[str]:
    """The prompts of guarded suites, which must not train."""
    quiet, found = Console(quiet=True), set[str]()
    for one in named_suites(config, session.recipe.tasks) if config else ():
        if one.suite:
            found |= {draw.task.prompt_hash for draw in _open(session, one, quiet, is_asked=False).draws}
    return frozenset(found)


def answers(session: Session, asked: Asked, draws: Sequence[Draw]) -> Iterator[tuple[str, Json]]:
    """Answer some of the tasks by the policy as it is; the results as the ledger keeps them, one a task."""
    if asked.opened is None:
        for draw, done in evaluate(session.means, draws, session.eval_seed):
            yield draw.task.id, result_json(result_of(draw, done), done)
        return
    with with_sandbox(session.means, asked.opened) as means:
        replies = sorted(replies_of(means, asked.opened.suite, draws), key=lambda one: one.sample)
    for result in averaged(map(result_of_reply, replies)):
        yield result.task_id, asdict(replace(result, parts=dict(result.parts)))


def refuse_shown(config: GuardConfig, entries: Sequence[TaskEntry], shown: Callable[[], frozenset[str]]) -> None:
    """`ConfigError` for a suite of which earlier stages show tasks: before they have trained for hours."""
    suites = [one.suite for one in named_suites(config, entries) if one.suite]
    prompts = shown() if suites else frozenset[str]()
    for suite in suites if prompts else ():
        sources = open_sources(suite.tasks, suite.sandbox, Console(quiet=True))
        try:
            drawn(suite, sources, trained=prompts)
        except ConfigError as error:
            raise ConfigError(f"stage 'rl': guard.suites, and a stage 'sft' before it: {error}") from None


def _named(config: GuardConfig, word: str, names: set[str]) -> list[Named]:
    if word in names:
        return [Named(word, config.margin_of(word), None)]
    if word.startswith(LM_EVAL):
        raise ConfigError(
            f"stage 'rl': guard.suites names {word!r}, whose own package wants the model for itself; evaluate it after "
            "the run, by `burnish eval`"
        )
    try:
        suites = list(named([word]))
    except ConfigError as error:
        raise ConfigError(
            f"stage 'rl': guard.suites names {word!r}, which no entry of tasks is reported under (there are: "
            f"{', '.join(sorted(names))}), and {error}"
        ) from None
    if also := sorted({suite.name for suite in suites} & names):
        raise ConfigError(
            f"stage 'rl': guard.suites: {also[0]!r} is a suite, and entries of tasks are reported under it; give those "
            "another group"
        )
    return [Named(suite.name, config.margin_of(suite.name, word), suite) for suite in suites]


def _refuse_held_out(one: Named, entries: Sequence[TaskEntry]) -> None:
    seen = {entry.domain for entry in entries} & {entry.domain for entry in one.suite.tasks} if one.suite else set()
    if one.suite and one.suite.held_out and seen:
        raise ConfigError(
            f"stage 'rl': guard.suites names {one.name!r}, which holds out {', '.join(sorted(seen))}, and the recipe "
            "trains on it; leave one of the two out"
        )


def _open(session: Session, one: Named, console: Console, *, is_asked: bool) -> Asked:
    if one.suite is None:
        draws = [
            draw
            for draw in held_out(session.sources, session.eval_seed)
            if draw.source.entry.report_name == one.name
        ]  # fmt: skip
        if not draws:
            raise ConfigError(
                f"stage 'rl': guard.suites names {one.name!r}, which this host had to leave out, so nothing could be "
                "said of it; leave it out there too"
            )
        return Asked(name=one.name, margin=one.margin, draws=_together(draws))
    sources = open_sources(one.suite.tasks, one.suite.sandbox, console)
    trained = trained_prompts(session.folder.path) if is_asked else frozenset[str]()
    opened = drawn(one.suite, sources, trained=trained)
    return Asked(name=one.name, margin=one.margin, draws=_together(opened.draws), opened=opened)


def _together(draws: Sequence[Draw]) -> list[Draw]:
    """Those of one source stand together, as one looks at whole sources."""
    place: dict[str, int] = {}
    for number, draw in enumerate(draws):
        place.setdefault(draw.task.source or draw.task.id, number)
    return sorted(draws, key=lambda draw: place[draw.task.source or draw.task.id])
