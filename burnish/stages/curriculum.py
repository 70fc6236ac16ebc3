"""The course of a run's stage `rl`: it hears of each step's groups, and turns the mixture where shares change.

Decisions:
- What is seen and decided goes into the ledger before the first draw that it touches; a row that is there stays. A
  resumed run folds the rows up to its checkpoint, and steps that it repeats must come to the rows that are there.
- A change holds from the first draw that was not made when it was decided. With `max_staleness` above 0 draws are made
  ahead, and so shares follow a little later. Those that were under way when a checkpoint was promoted do not come again
  after a roll-back to it, since some of them may have trained before.
- A stage whose shares cannot change (`Plan.is_still`) notes nothing, and draws by the entries' weights.

Not covered: a course over several stages `rl`; each begins with what its entries say.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean, pvariance
from typing import Any, Protocol

from burnish.core.errors import ConfigError, InvariantError
from burnish.core.ledger import CourseRow, Ledger
from burnish.core.recipe import TaskEntry
from burnish.core.types import Json, Task
from burnish.rollout import phases
from burnish.rollout.collect import StepRollouts
from burnish.rollout.corrections import CorrectionsConfig
from burnish.rollout.course import Change, GateKind, MixtureConfig, Plan, State, advance, begin, gated
from burnish.rollout.groups import Group
from burnish.rollout.mixture import Mixture, Segment
from burnish.rollout.standing import Seen
from burnish.stages.guard_config import GuardConfig
from burnish.stages.guard_suites import guarded_prompts
from burnish.stages.session import Session

CHANGE, GATE, SEEN = "change", "gate", "seen"


class Options(Protocol):
    """What stage `rl` says of its course."""

    @property
    def mixture(self) -> MixtureConfig:
        """How training is shared out."""
        ...

    @property
    def corrections(self) -> CorrectionsConfig | None:
        """What failed replies change."""
        ...

    @property
    def guard(self) -> GuardConfig | None:
        """What must not get worse."""
        ...

    @property
    def num_steps(self) -> int:
        """How long the stage is."""
        ...


def plan_of(options: Options, entries: Sequence[TaskEntry]) -> Plan:
    """The recipe's plan; `ConfigError` where its graph cannot work."""
    mixture, guard = options.mixture, options.guard
    rules = phases.rules_of(entries, solved=mixture.solved, silent=mixture.silent)
    phases.check_graph(rules, options.num_steps)
    return Plan(
        rules=rules, mixture=mixture, corrections=options.corrections, is_guarded=guard is not None,
        **({"cut": guard.cut} if guard else {}),
    )  # fmt: skip


def check_signal(plan: Plan, group_sizes: Mapping[str, int]) -> None:
    """`ConfigError` where something looks at how rewards differ within groups of one."""
    alone = sorted(name for name, size in group_sizes.items() if size < 2)
    if alone and plan.needs_signal:
        raise ConfigError(
            f"tasks {alone[0]!r} are sampled once a prompt, so that no group has members that could score differently, "
            "and mixture kind 'signal' and `silent` look at that; raise group_size, or leave them out"
        )


class Course:
    """See the module's docstring."""

    def __init__(
        self, plan: Plan, ledger: Ledger, stage: int, open_mixture: Callable[[Sequence[Segment]], Mixture]
    ) -> None:
        self.plan, self._ledger, self._stage = plan, ledger, stage
        rows = ledger.course(stage)
        self.mixture = open_mixture(segments_of(rows))
        self._rows = {(row.step, row.kind): row.payload for row in rows}
        self._state, change = begin(plan)
        self._promoted = self._state
        if not plan.is_still:
            self._turn(0, CHANGE, _change_json(change))

    @property
    def state(self) -> State:
        """As of the last step that was observed."""
        return self._state

    def restore(self, first: int) -> None:
        """Fold what the ledger has of the steps before `first`."""
        rows = [CourseRow(step, kind, payload) for (step, kind), payload in self._rows.items() if step <= first]
        self._state, self._promoted = _folded(self.plan, sorted(rows, key=_in_order))

    def observe(self, step: int, rollouts: StepRollouts) -> None:
        """Hear of the groups of a step that was taken; shares may change before the next."""
        if self.plan.is_still:
            return
        groups = [*self._seen(rollouts.kept, trained=True), *self._seen(rollouts.dropped, trained=False)]
        with self._ledger.together():
            self._note(step + 1, SEEN, [group.to_json() for group in groups])
            self._state, change = advance(self.plan, self._state, step + 1, groups)
            if change:
                self._turn(step + 1, CHANGE, _change_json(change))

    def decide(self, step: int, kind: GateKind, slipped: Sequence[str], told: Mapping[str, Json]) -> None:
        """Note a gate's decision after `step` steps, with what it was told, and change shares by it."""
        state, change = gated(self.plan, self._state, self._promoted, kind, slipped)
        rewind: dict[str, Json] = {"rewind_to": self._draw_of_promoted()} if kind == "roll_back" else {}
        changed = _change_json(change) if change else {}
        self._turn(step, GATE, {"kind": kind, "slipped": [*slipped], **told, **changed, **rewind})
        self._state = state
        if kind == "promote":
            self._promoted = state

    def gate(self, step: int) -> dict[str, Any] | None:
        """What a gate decided after so many steps, if there was one."""
        return self._rows.get((step, GATE))

    def promoted_step(self, until: int) -> int:
        """After how many steps the last promoted checkpoint was made; 0 is the stage's beginning."""
        return max((step for step, row in self.gates(until) if row["kind"] == "promote"), default=0)

    def gates(self, until: int) -> list[tuple[int, dict[str, Any]]]:
        """The decisions after at most so many steps, in order."""
        found = [(step, row) for (step, kind), row in self._rows.items() if kind == GATE and step <= until]
        return sorted(found, key=lambda gate: gate[0])

    @property
    def first_draw_that_counts(self) -> int:
        """The first draw after the last roll-back: groups that were drawn before it must not train any more."""
        return max((row["first_draw"] for _, row in self.gates(1 << 40) if row["kind"] == "roll_back"), default=0)

    def _draw_of_promoted(self) -> int:
        """The first draw that the promoted checkpoint has not trained on."""
        step = self.promoted_step(1 << 40)
        return self._rows[step, GATE]["first_draw"] if step else 0

    def _seen(self, groups: Iterable[Group], *, trained: bool) -> list[Seen]:
        found = [seen(group, self._task_of(group), trained=trained) for group in groups]
        return [one for one in found if one is not None]

    def _task_of(self, group: Group) -> Task:
        return self.mixture.draw(int(group.id.split("/")[1])).task

    def _turn(self, step: int, kind: str, payload: Mapping[str, Json]) -> None:
        """Note what begins with the next draw; the mixture takes new shares up unless it knows them."""
        is_new = (step, kind) not in self._rows
        first = max(self.mixture.num_made, self._ledger.num_draws(self._stage))
        self._note(step, kind, {**payload, "first_draw": first})
        if is_new and "shares" in payload:
            self.mixture.turn(segment_of(self._rows[step, kind]))

    def _note(self, step: int, kind: str, payload: Any) -> None:
        kept = self._rows.setdefault((step, kind), payload)
        if kept is payload:
            self._ledger.note_course(self._stage, step, kind, payload)
        elif _without_draw(kept) != _without_draw(payload):
            raise InvariantError(
                f"stage 'rl', before step {step}: the ledger has {kind} {str(kept)[:200]}, and the repeated step came "
                f"to {str(payload)[:200]}; the run is not repeated as it was: has a domain or its data changed?"
            )


def open_course(session: Session, options: Options) -> Course:
    """The course of the session's stage, with the mixture that it turns."""
    plan = plan_of(options, [source.entry for source in session.live_sources])
    exclude, seed = session.held_out_prompts() | guarded_prompts(session, options.guard), session.train_seed
    return Course(
        plan, session.ledger, session.position,
        lambda segments: Mixture(session.live_sources, seed=seed, exclude=exclude, segments=segments),
    )  # fmt: skip


def final_state(plan: Plan, rows: Sequence[CourseRow]) -> State:
    """The state that a stage's rows lead to."""
    return _folded(plan, rows)[0]


def segments_of(rows: Iterable[CourseRow]) -> list[Segment]:
    """What the ledger knows of shares, as the mixture takes it."""
    return [segment_of(row.payload) for row in rows if row.kind in (CHANGE, GATE) and "shares" in row.payload]


def segment_of(payload: Mapping[str, Any]) -> Segment:
    """A row's shares, from its first draw on."""
    return Segment(
        first=payload["first_draw"], shares=payload["shares"], targets=payload["targets"],
        rewind_to=payload.get("rewind_to"),
    )  # fmt: skip


def seen(group: Group, task: Task, *, trained: bool) -> Seen | None:
    """What a group showed; None if none of it was scored."""
    rewards = group.rewards
    if not rewards:
        return None
    faults: dict[str, int] = {}
    for member in group.scored:
        assert member.verdict is not None and member.verdict.score is not None
        for part, value in member.verdict.parts.items() if member.verdict.score < 1 else ():
            faults[part] = faults.get(part, 0) + (value == 0)
    return Seen(
        domain=group.source_name, mean=fmean(rewards), variance=pvariance(rewards), trained=trained,
        num_replies=len(rewards), places=tuple(dict.fromkeys(filter(None, (task.source, *task.tags)))), faults=faults,
    )  # fmt: skip


def _change_json(change: Change) -> dict[str, Json]:
    shares: dict[str, Json] = {name: share for name, share in change.shares.items() if share}
    targets: dict[str, Json] = {name: dict(places) for name, places in change.targets.items()}
    return {
        "shares": shares, "targets": targets, "why": [*change.why], "corrections": [*change.corrections],
        "measured": [*change.measured],
    }  # fmt: skip


def _without_draw(payload: Any) -> Any:
    """With `max_staleness` above 0, how many draws are made ahead depends on the moment."""
    if not isinstance(payload, dict):
        return payload
    return {name: value for name, value in payload.items() if name != "first_draw"}


def _folded(plan: Plan, rows: Iterable[CourseRow]) -> tuple[State, State]:
    """The state that rows in their order lead to, and that of the last promoted checkpoint."""
    state = promoted = begin(plan)[0]
    for step, kind, payload in rows:
        if kind == SEEN:
            state, _ = advance(plan, state, step, [Seen.from_json(row) for row in payload])
        elif kind == GATE:
            state, _ = gated(plan, state, promoted, payload["kind"], payload["slipped"])
            promoted = state if payload["kind"] == "promote" else promoted
    return state, promoted


def _in_order(row: CourseRow) -> tuple[int, int]:
    return row.step, (SEEN, CHANGE, GATE).index(row.kind)
