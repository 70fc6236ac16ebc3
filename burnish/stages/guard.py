"""Gates within stage `rl`: every N steps guarded suites are evaluated, and the newest weights are promoted or not.

promote     this checkpoint is the one to go back to, and what later gates compare with
hold        nothing happens: training goes on, and the next gate comes as planned
roll back   weights, optimiser, running moments of rewards, the course and the place in the data are those of the last
            promoted checkpoint again; the share of what is suspected falls (`rollout.blame`)

Order, for a kill at any moment: the checkpoint of the step; the suite's results, chunk by chunk; the decision, with the
shares that follow from it, in one row of the ledger; then what it says is done. A resumed run that finds no decision
goes on with the evaluation; one that finds a decision does it again, which changes nothing where it was done.

Decisions:
- Steps go on counting after a roll-back: what was spent is spent, and a stage ends after `num_steps` steps in any case.
  Prompts since the promoted checkpoint come again, in other groups.
- There is a gate after the last step. Unless it promotes, the stage hands on the last promoted checkpoint, or what it
  began with.
- Held-out tasks are answered once each, greedily, as stage `evaluate` does it. A promoted checkpoint is evaluated on
  all of them, since the next is compared with it.

Not covered: `max_staleness` above 0, where samples of the weights that were given up are under way; `ema_decay`, since
what is evaluated must be what is handed on. The rules of `evals.guarding` say what its errors are.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from burnish.core.errors import ConfigError
from burnish.core.types import Json
from burnish.evals.guarding import Compared, Guarded, Verdict, run_gate
from burnish.evals.records import EvalResult
from burnish.rollout.mixture import Draw, held_out
from burnish.stages import training
from burnish.stages.curriculum import Course
from burnish.stages.evaluate import evaluate, kept_result, result_json, result_of
from burnish.stages.guard_config import GuardConfig
from burnish.stages.session import Session
from burnish.stages.terminal import styled
from burnish.stages.training import Saved

_LOOKS = {"promote": "green", "hold": "yellow", "roll_back": "red"}


class Guard:
    """The gates of one stage; without a config there are none. See the module's docstring."""

    def __init__(
        self, session: Session, config: GuardConfig | None, course: Course, num_steps: int, saved: Saved | None
    ) -> None:
        self._session, self._config, self._course = session, config, course
        self._num_steps, self._saved = num_steps, saved
        self._draws = _draws(session, config.suites) if config else {}
        self._suites = [
            Guarded(name, [draw.task.source or draw.task.id for draw in draws], config.margin_of(name))
            for name, draws in self._draws.items()
            if config
        ]

    def begin(self, first: int) -> None:
        """Go on after `first` steps: with a gate that was not decided, or with what one has decided."""
        if self._config is None:
            return
        if first == 0:
            if not training.newest_step(self._session):
                training.save(self._session, 0, self._saved)
            self._complete(0)
        elif self.is_due(first):
            self.after(first)

    def is_due(self, step: int) -> bool:
        """Whether a gate comes after so many steps."""
        return self._config is not None and self._config.is_due(step, self._num_steps)

    def keeps(self) -> Sequence[int]:
        """The checkpoints that must stay."""
        return [] if self._config is None else [self._course.promoted_step(self._num_steps)]

    def after(self, step: int) -> None:
        """Hold the gate after so many steps, if one is due; its checkpoint has been made."""
        if not self.is_due(step):
            return
        if self._course.gate(step) is None:
            self._decide(step)
        decided = self._course.gate(step)
        assert decided is not None
        if decided["kind"] == "roll_back":
            training.restore(self._session, self._course.promoted_step(step), self._saved)

    def finish(self) -> dict[str, Any]:
        """End the stage with the last promoted checkpoint; the stage's result."""
        if self._config is None:
            return training.finish(self._session)
        promoted = self._course.promoted_step(self._num_steps)
        if promoted != self._num_steps:
            training.restore(self._session, promoted, self._saved)
            self._session.console.print(styled(f"  the stage hands on what it had after step {promoted}"))
        kinds = Counter(row["kind"] for _, row in self._course.gates(self._num_steps))
        outcome = {} if promoted else {"outcome": "held"}
        return training.finish(self._session) | {"promoted_step": promoted, "gates": dict(kinds)} | outcome

    def _decide(self, step: int) -> None:
        config = self._config
        assert config is not None
        verdict = run_gate(
            self._suites, self._references(step), lambda suite, num: self._results(step, suite, num),
            alpha=config.alpha, num_gates=config.num_gates(self._num_steps),
            num_against=1 if config.against == "start" else 2, at_least=config.look_every,
        )  # fmt: skip
        if verdict.kind == "promote" and step < self._num_steps and config.against == "both":
            self._complete(step)
        told: dict[str, Json] = {"compared": [compared_json(one) for one in verdict.compared]}
        self._course.decide(step, verdict.kind, verdict.slipped, told)
        self._session.heartbeat()
        self._say(step, verdict)

    def _references(self, step: int) -> dict[str, dict[str, list[EvalResult]]]:
        assert self._config is not None
        promoted = self._course.promoted_step(step)
        steps = {"start": 0}
        if promoted and self._config.against == "both":
            steps[f"step {promoted}"] = promoted
        return {name: {suite.name: self._kept(of, suite.name) for suite in self._suites} for name, of in steps.items()}

    def _kept(self, step: int, name: str) -> list[EvalResult]:
        """All results of a suite after a step whose weights are gone."""
        kept = self._session.ledger.guarded(self._session.position, step, name)
        return [kept_result(kept[draw.task.id]) for draw in self._draws[name]]

    def _complete(self, step: int) -> None:
        """Evaluate the weights of a step, which are the live ones, on all that no gate has asked for."""
        for suite in self._suites:
            self._results(step, suite.name, len(suite.clusters))

    def _results(self, step: int, name: str, num: int) -> list[EvalResult]:
        """The first results of a suite; what is missing is evaluated, in the chunks that lie between two looks."""
        session, draws = self._session, self._draws[name]
        kept = session.ledger.guarded(session.position, step, name)
        for chunk in self._chunks(name, num):
            if all(draw.task.id in kept for draw in chunk):
                continue
            done = evaluate(session.means, chunk, session.eval_seed)
            rows = [(draw.task.id, result_json(result_of(draw, one), one)) for draw, one in done]
            session.ledger.record_guarded(session.position, step, name, rows)
            session.heartbeat()
            kept = session.ledger.guarded(session.position, step, name)
        return [kept_result(kept[draw.task.id]) for draw in draws[:num]]

    def _chunks(self, name: str, num: int) -> list[Sequence[Draw]]:
        assert self._config is not None
        (suite,) = (suite for suite in self._suites if suite.name == name)
        ends = [end for end in suite.looks(self._config.look_every) if end <= num]
        return [self._draws[name][start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def _say(self, step: int, verdict: Verdict) -> None:
        for one in verdict.compared:
            self._session.console.print(styled("  ", (one.suite, "bold"), f" {one.in_words}"))
        word = verdict.kind.replace("_", " ")
        self._session.console.print(styled(f"Gate after step {step}: ", (word, _LOOKS[verdict.kind])))


def check_guard(config: GuardConfig | None, names: Sequence[str], *, max_staleness: int, ema_decay: float) -> None:
    """`ConfigError` for suites that are not there, and options that do not go together."""
    if config is None:
        return
    if unknown := sorted(set(config.suites) - set(names)):
        raise ConfigError(
            f"stage 'rl': guard.suites names {unknown[0]!r}, which no entry of tasks is reported under; there are: "
            f"{', '.join(sorted(set(names)))}"
        )
    if max_staleness:
        raise ConfigError(
            f"stage 'rl': guard with max_staleness = {max_staleness}: a roll-back would meet samples under way of "
            "weights that were given up; set max_staleness to 0, or put an 'evaluate' and a 'gate' stage behind"
        )
    if ema_decay:
        raise ConfigError(
            f"stage 'rl': guard with ema_decay {ema_decay}: the stage would hand on an average that no gate has seen; "
            "leave ema_decay out"
        )


def compared_json(one: Compared) -> dict[str, Json]:
    """A comparison as the ledger keeps it."""
    return {**asdict(one), "kind": one.kind, "in_words": one.in_words}


def _draws(session: Session, names: Sequence[str]) -> dict[str, list[Draw]]:
    """The held-out tasks of each suite; those of one source stand together, as one looks at whole sources."""
    found: dict[str, list[Draw]] = {name: [] for name in names}
    for draw in held_out(session.sources, session.eval_seed):
        if draw.source.entry.report_name in found:
            found[draw.source.entry.report_name].append(draw)
    if left_out := [name for name, draws in found.items() if not draws]:
        raise ConfigError(
            f"stage 'rl': guard.suites names {left_out[0]!r}, which this host had to leave out, so nothing could be "
            "said of it; leave it out there too"
        )
    return {name: _together(draws) for name, draws in found.items()}


def _together(draws: Sequence[Draw]) -> list[Draw]:
    place: dict[str, int] = {}
    for number, draw in enumerate(draws):
        place.setdefault(draw.task.source or draw.task.id, number)
    return sorted(draws, key=lambda draw: place[draw.task.source or draw.task.id])
