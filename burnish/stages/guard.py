"""Gates within stage `rl`: every N steps guarded suites are evaluated, and the newest weights are promoted or not.

promote     this checkpoint is the one to go back to, and what later gates compare with
hold        nothing happens: training goes on, and the next gate comes as planned
roll back   weights, optimiser, running average, running moments of rewards, the course and the place in the data are
            those of the last promoted checkpoint again; the share of what is suspected falls (`rollout.blame`)

Order, for a kill at any moment: the checkpoint of the step; the suite's results, chunk by chunk; the decision, with the
shares that follow from it, in one row of the ledger; then what it says is done. A resumed run that finds no decision
goes on with the evaluation; one that finds a decision does it again, which changes nothing where it was done.

Decisions:
- Steps go on counting after a roll-back: what was spent is spent, and a stage ends after `num_steps` steps in any case.
  Prompts since the promoted checkpoint come again, in other groups.
- There is a gate after the last step, also where a stage ends before its time. Unless it promotes, the stage hands on
  the last promoted checkpoint, or what it began with.
- What is evaluated is what would be handed on: with `ema_decay` the running average, in whose place the weights of the
  checkpoint come back after the gate.
- The version of the weights counts on where they are replaced (`VERSIONS`), so that no sample is taken for one of other
  weights, and the same whether or not a process ended meanwhile.
- With `max_staleness` above 0 the loop ends at a gate and begins anew behind it, as a resumed run does: the engine
  holds nothing while it evaluates, and samples that were under way are begun anew. A roll-back drops all that was drawn
  before it (`rl_stream`): no sample of weights that were given up trains.
- A promoted checkpoint is evaluated on all tasks, since the next is compared with it.

Not covered: `guard_suites` and the rules of `evals.guarding` say what.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from burnish.core.errors import RunFolderError
from burnish.core.recipe import TaskEntry
from burnish.core.types import Json
from burnish.evals.guarding import Compared, Verdict, run_gate
from burnish.evals.records import EvalResult
from burnish.evals.suites import opened
from burnish.stages import training
from burnish.stages.curriculum import Course
from burnish.stages.evaluate import kept_result
from burnish.stages.guard_config import GuardConfig
from burnish.stages.guard_suites import Asked, answers, named_suites, open_asked
from burnish.stages.session import Session
from burnish.stages.terminal import styled
from burnish.stages.training import Saved

VERSIONS: Final = 2
"""By so much a gate that replaces weights raises their version: by one for the average, and one for what comes then."""
_LOOKS = {"promote": "green", "hold": "yellow", "roll_back": "red"}


class Guard:
    """The gates of one stage; without a config there are none. See the module's docstring."""

    def __init__(
        self, session: Session, config: GuardConfig | None, course: Course, num_steps: int, saved: Saved | None,
        *, hands_on_average: bool,
    ) -> None:  # fmt: skip
        self._session, self._config, self._course = session, config, course
        self._num_steps, self._saved, self._hands_on_average = num_steps, saved, hands_on_average
        self._asked = {asked.name: asked for asked in open_asked(session, config)} if config else {}

    def begin(self, first: int) -> None:
        """Go on after `first` steps: with a gate that was not decided, or with what one has decided."""
        if self._config is None:
            return
        if first == 0:
            if not training.newest_step(self._session):
                training.save(self._session, 0, self._saved)
            self._complete(0)
        elif self.is_due(first) or self._course.gate(first):
            self.after(first)

    def is_due(self, step: int) -> bool:
        """Whether a gate comes after so many steps."""
        return self._config is not None and self._config.is_due(step, self._num_steps)

    def keeps(self) -> Sequence[int]:
        """The checkpoints that must stay."""
        return [] if self._config is None else [self._course.promoted_step(self._num_steps)]

    def after(self, step: int) -> None:
        """Hold the gate after so many steps; its checkpoint has been made."""
        version = self._session.policy.version
        if self._course.gate(step) is None:
            if self._hands_on_average:
                self._session.policy.adopt_average()
            self._decide(step)
        decided = self._course.gate(step)
        assert decided is not None
        if decided["kind"] == "roll_back":
            put_back(self._session, self._course.promoted_step(step), version, self._saved)
        elif self._hands_on_average:
            put_back(self._session, step, version, self._saved)

    def finish(self, num_done: int) -> dict[str, Any]:
        """End the stage after so many steps with the last promoted checkpoint; the stage's result."""
        if self._config is None:
            return training.finish(self._session)
        if num_done and self._course.gate(num_done) is None:  # the stage ended before its time
            self.after(num_done)
        promoted = self._course.promoted_step(self._num_steps)
        if promoted != num_done:
            training.restore(self._session, promoted, self._saved)
            self._session.console.print(styled(f"  the stage hands on what it had after step {promoted}"))
        kinds = Counter(row["kind"] for _, row in self._course.gates(self._num_steps))
        outcome = {} if promoted else {"outcome": "held"}
        return training.finish(self._session) | {"promoted_step": promoted, "gates": dict(kinds)} | outcome

    def _decide(self, step: int) -> None:
        config = self._config
        assert config is not None
        verdict = run_gate(
            [asked.guarded for asked in self._asked.values()], self._references(step),
            lambda suite, num: self._results(step, self._asked[suite], num),
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
        return {
            name: {asked: self._kept(of, self._asked[asked]) for asked in self._asked} for name, of in steps.items()
        }

    def _kept(self, step: int, asked: Asked) -> list[EvalResult]:
        """All results of a suite after a step whose weights are gone."""
        kept = self._session.ledger.guarded(self._session.position, step, asked.name)
        if missing := [draw.task.id for draw in asked.draws if draw.task.id not in kept]:
            raise RunFolderError(
                f"stage 'rl': after step {step} suite {asked.name!r} had no task {missing[0]!r}: its file or a domain "
                "has changed since; put that back, then go on by --resume, or start again under another name"
            )
        return [kept_result(kept[draw.task.id]) for draw in asked.draws]

    def _complete(self, step: int) -> None:
        """Evaluate the weights of a step, which are the live ones, on all that no gate has asked for."""
        for asked in self._asked.values():
            self._results(step, asked, len(asked.draws))

    def _results(self, step: int, asked: Asked, num: int) -> list[EvalResult]:
        """The first results of a suite; what is missing is evaluated, in the chunks that lie between two looks."""
        assert self._config is not None
        session = self._session
        kept = session.ledger.guarded(session.position, step, asked.name)
        for chunk in asked.chunks(num, self._config.look_every):
            if all(draw.task.id in kept for draw in chunk):
                continue
            session.ledger.record_guarded(session.position, step, asked.name, list(answers(session, asked, chunk)))
            session.heartbeat()
            kept = session.ledger.guarded(session.position, step, asked.name)
        return [kept_result(kept[draw.task.id]) for draw in asked.draws[:num]]

    def _say(self, step: int, verdict: Verdict) -> None:
        for one in verdict.compared:
            self._session.console.print(styled("  ", (one.suite, "bold"), f" {one.in_words}"))
        word = verdict.kind.replace("_", " ")
        self._session.console.print(styled(f"Gate after step {step}: ", (word, _LOOKS[verdict.kind])))


def put_back(session: Session, num_steps: int, version: int, saved: Saved | None) -> None:
    """Go back to the checkpoint of so many steps, from weights that had this version before their gate."""
    training.restore(session, num_steps, saved)
    session.policy.renumber(version + VERSIONS)


def check_guard(config: GuardConfig | None, entries: Sequence[TaskEntry]) -> None:
    """`ConfigError` for suites that are not there, that cannot be asked here, or that the recipe trains on."""
    for one in named_suites(config, entries) if config else ():
        if one.suite:
            opened(one.suite)


def gate_lines(config: GuardConfig, entries: Sequence[TaskEntry], num_steps: int) -> list[str]:
    """What is guarded, and when."""
    suites = ", ".join(f"{one.name} (margin {one.margin:g})" for one in named_suites(config, entries))
    return [f"{config.num_gates(num_steps)} gates, one every {config.every} steps, alpha {config.alpha:g}: {suites}"]


def compared_json(one: Compared) -> dict[str, Json]:
    """A comparison as the ledger keeps it."""
    return {**asdict(one), "kind": one.kind, "in_words": one.in_words}
