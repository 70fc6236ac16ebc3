"""The course of a stage: what its groups and gates have shown, folded into shares, by pure functions.

`begin` → `advance` at the boundary after each step → `gated` after each gate. State is never stored: the ledger keeps
what was seen and decided, and a resumed run folds that again. A change of shares says from which draw on it holds, so
that any draw is a function of the ledger.

After a roll-back the state is that of the promoted checkpoint, as its weights are, but for what was learned about
blame: a domain that had entered since then waits again for its test, and enters with what share it was left.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, Self

from pydantic import Field, model_validator

from burnish.core.config import Strict
from burnish.core.curriculum import Silent, Solved
from burnish.core.types import Json
from burnish.rollout import shares as by
from burnish.rollout.blame import after_failure, after_success
from burnish.rollout.corrections import (
    CorrectionsConfig,
    Tally,
    Target,
    Targets,
    find_targets,
    measured,
    weights_of,
)
from burnish.rollout.phases import Rules, first_standings, moves
from burnish.rollout.standing import Seen, Standing

GateKind = Literal["promote", "hold", "roll_back"]
Kind = Literal["fixed", "temperature", "signal", "protect"]
_READ_BY: Mapping[str, tuple[Kind, ...]] = {
    "temperature": ("temperature",), "measure": ("signal",), "strength": ("protect",),
    "every": ("signal", "protect"), "over": ("signal", "protect"), "least": ("signal", "protect"),
}  # fmt: skip


class MixtureConfig(Strict):
    """How the training is shared out among the domains; their weights are those of the entries."""

    kind: Kind = "fixed"
    temperature: float = Field(default=2.0, gt=0)
    """Of kind "temperature": p ~ w^(1/T)."""
    measure: Literal["share", "spread"] = "share"
    """Of kind "signal": the share of groups whose members scored differently, or their standard deviation."""
    strength: float = Field(default=4.0, gt=0)
    """Of kind "protect": by how much a reward that has slipped by 1 raises a share."""
    every: int = Field(default=10, ge=1)
    """Steps between changes that measurements make."""
    over: int = Field(default=32, ge=2)
    """Groups of a domain that a measurement looks at."""
    least: float = Field(default=0.2, ge=0, le=1)
    """No domain that trains gets less than this part of an equal share by its measurements."""
    solved: Solved | None = None
    """Of all entries that do not say."""
    silent: Silent | None = None
    """Of all entries that do not say."""

    @model_validator(mode="after")
    def _options_are_read(self) -> Self:
        for option, kinds in _READ_BY.items():
            if option in self.model_fields_set and self.kind not in kinds:
                raise ValueError(
                    f"mixture: {option} is read by kind {' and '.join(map(repr, kinds))}, and kind is {self.kind!r}; "
                    "choose that, or leave it out"
                )
        return self

    @property
    def is_measured(self) -> bool:
        """Whether the shares follow what the groups show."""
        return self.kind in ("signal", "protect")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the recipe says."""

    rules: Mapping[str, Rules]
    mixture: MixtureConfig
    corrections: CorrectionsConfig | None = None
    is_guarded: bool = False
    cut: float = 0.75
    """What part of its share the most suspected domain loses in a roll-back."""

    @property
    def is_still(self) -> bool:
        """Whether nothing can ever change the shares, which are then the entries' weights."""
        return self.mixture.kind == "fixed" and self.corrections is None and not self.is_guarded and not self.has_graph

    @property
    def has_graph(self) -> bool:
        """Whether domains enter or leave."""
        return any(
            rule.enters.after or rule.enters.at_step or rule.solved or rule.silent for rule in self.rules.values()
        )

    @property
    def needs_signal(self) -> bool:
        """Whether something looks at how rewards differ within a group."""
        return self.mixture.kind == "signal" or any(rule.silent for rule in self.rules.values())

    @property
    def window(self) -> int:
        """How many groups of a domain are remembered."""
        overs = [rule.enters.over for rule in self.rules.values() if rule.enters.after]
        for rule in self.rules.values():
            overs += [test.over for test in (rule.solved, rule.silent) if test]
        return max([self.mixture.over, *overs])


class Change(NamedTuple):
    """New shares, and why; `measured` is what became of the last corrections."""

    shares: Mapping[str, float]
    targets: Targets
    why: Sequence[str]
    corrections: Sequence[dict[str, Json]] = ()
    measured: Sequence[dict[str, Json]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Everything that the shares follow from."""

    standings: Mapping[str, Standing]
    shares: Mapping[str, float] = field(default_factory=dict[str, float])
    factors: Mapping[str, float] = field(default_factory=dict[str, float])
    """By what gates have multiplied shares."""
    tally: Tally = field(default_factory=Tally)
    targets: tuple[Target, ...] = ()
    trained: Mapping[str, int] = field(default_factory=dict[str, int])
    """Groups that trained since the last promoted checkpoint."""
    passed: Mapping[str, float] = field(default_factory=dict[str, float])
    failed: Mapping[str, float] = field(default_factory=dict[str, float])


def begin(plan: Plan) -> tuple[State, Change]:
    """Before the first step."""
    state = State(standings=first_standings(plan.rules))
    state = replace(state, shares=_shares(plan, state))
    return state, Change(state.shares, {}, ["the stage begins"])


def advance(plan: Plan, state: State, step: int, groups: Sequence[Seen]) -> tuple[State, Change | None]:
    """The state before step `step`, from what the step before it showed; the change of shares if there is one."""
    state = _observed(plan, state, groups)
    moved = moves(plan.rules, state.standings, step, state.factors)
    standings = {**state.standings, **{name: state.standings[name].moved(to) for name, (to, _) in moved.items()}}
    state = replace(state, standings=standings)
    is_measuring = plan.mixture.is_measured and step % plan.mixture.every == 0
    is_correcting = plan.corrections is not None and step % plan.corrections.every == 0
    if not (moved or is_measuring or is_correcting):
        return state, None
    was, were = state.shares, state.targets
    found = measured(were, state.tally) if is_correcting else []
    if plan.corrections and is_correcting:
        state = replace(state, targets=tuple(find_targets(state.tally, plan.corrections)), tally=Tally())
    state = replace(state, shares=_shares(plan, state))
    if state.shares == was and state.targets == were and not moved and not found:
        return state, None
    why = [f"{name} is {to}: {reason}" for name, (to, reason) in moved.items()]
    why += [f"measured: {plan.mixture.kind}"] if is_measuring and state.shares != was else []
    why += [f"{len(state.targets)} corrections"] if is_correcting and (state.targets or were) else []
    corrections = [target.to_json() for target in state.targets] if is_correcting else []
    return state, Change(state.shares, weights_of(state.targets), why, corrections, found)


def gated(
    plan: Plan, state: State, promoted: State, kind: GateKind, slipped: Sequence[str]
) -> tuple[State, Change | None]:
    """The state after a gate; `promoted` is that at the last promoted checkpoint, `slipped` the suites that failed."""
    slipped = [name for name in slipped if name in plan.rules]  # others have no share to raise
    if kind == "hold":
        return state, None
    stretch = by.normalised(state.trained) if state.trained else {}
    if kind == "promote":
        passed = _summed(state.passed, stretch)
        found = replace(state, passed=passed, factors=after_success(state.factors), trained={})
        why = ["what was raised after a roll-back goes back"]
    else:
        failed = _summed(state.failed, stretch)
        factors = after_failure(state.factors, failed, state.passed, slipped, stretch, cut=plan.cut)
        found = replace(promoted, passed=state.passed, failed=failed, factors=factors, trained={})
        why = [
            f"{name}: share times {factors[name]:.3g}"
            for name in factors
            if factors[name] != state.factors.get(name, 1)
        ]
    found = replace(found, shares=_shares(plan, found))
    if kind == "promote" and found.shares == state.shares:
        return found, None
    return found, Change(found.shares, weights_of(found.targets), why)


def _observed(plan: Plan, state: State, groups: Sequence[Seen]) -> State:
    standings, trained, window = dict(state.standings), dict(state.trained), plan.window
    for group in groups:
        standings[group.domain] = standings[group.domain].after(group, window, plan.mixture.over)
        if group.trained:
            trained[group.domain] = trained.get(group.domain, 0) + 1
    tally = state.tally.after(groups) if plan.corrections else state.tally
    return replace(state, standings=standings, trained=trained, tally=tally)


def _shares(plan: Plan, state: State) -> dict[str, float]:
    """Weights by the mixture's kind, times what phases and gates make of them."""
    in_play = {name: plan.rules[name].weight for name, one in state.standings.items() if one.phase != "waiting"}
    base = _by_kind(plan.mixture, in_play, state.standings)
    phased = {name: share * plan.rules[name].factor(state.standings[name].phase) for name, share in base.items()}
    judged = {name: share * state.factors.get(name, 1.0) for name, share in phased.items()}
    found = by.normalised(judged if sum(judged.values()) > 0 else phased)  # something must train
    return {name: found.get(name, 0.0) for name in plan.rules}


def _by_kind(
    config: MixtureConfig, weights: Mapping[str, float], standings: Mapping[str, Standing]
) -> dict[str, float]:
    match config.kind:
        case "fixed":
            return by.normalised(weights)
        case "temperature":
            return by.by_temperature(weights, config.temperature)
        case "signal":
            measure = Standing.smooth_signal if config.measure == "share" else Standing.spread
            signals = {name: measure(standings[name], config.over) for name in weights}
            return by.with_least(by.by_signal(weights, signals), config.least)
        case "protect":
            slips = {name: standings[name].slip(config.over) for name in weights}
            return by.with_least(by.by_slips(weights, slips, strength=config.strength), config.least)


def _summed(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    return {name: one.get(name, 0.0) + other.get(name, 0.0) for name in {**one, **other}}
