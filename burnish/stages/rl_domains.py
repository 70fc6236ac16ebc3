"""What stage `rl` does for the tasks of each domain: the stage's own options, with those of `[tasks.rl]` on top.

A domain's rule is a whole `Config` of the stage, so that everything that is refused of a stage is refused of a domain
too. A domain that names an objective takes nothing of what the stage chose about its own (options, aggregation,
correction); without one, its `objective_options` go on top of the stage's.

Covered: entries that are reported under one name have one rule. Not covered: a value model (`ppo`) for some domains
only, KL, entropy bonus and updates a step by domain.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from pydantic import Field, JsonValue

from burnish.core.config import Strict, validate
from burnish.core.errors import ConfigError
from burnish.core.recipe import TaskEntry
from burnish.core.types import POINTS, Verdict
from burnish.objectives import aggregation as weighing
from burnish.objectives.dialects import Choice
from burnish.rewards import normalisers
from burnish.rewards.parts import RewardParts
from burnish.rollout.groups import Group
from burnish.rollout.scheduler_config import GroupRules, SchedulerConfig
from burnish.stages.rl_config import Config
from burnish.stages.rl_loss import (
    Correction,
    advantages_of,
    compares_groups,
    load_rollout_objective,
    needs_values,
)

OF_OBJECTIVE: Final = ("objective_options", "aggregation", "correction", "correction_options", "max_draws_factor")
"""Options of the stage that mean its own objective, and no domain's."""
OF_ASYNCHRONY: Final = ("in_flight", "scheduler")
OF_UPDATE: Final = (
    "objective", "objective_options", "aggregation", "correction", "correction_options", "temperature", "weight",
)  # fmt: skip
"""What a value model needs to be the same for all domains."""


class DomainOptions(Strict):
    """`[tasks.rl]`. None is the stage's own."""

    objective: str | None = None
    objective_options: dict[str, JsonValue] = {}
    aggregation: weighing.Kind | None = None
    correction: Correction | None = None
    correction_options: dict[str, float] = {}
    group_size: int | None = Field(default=None, ge=1)
    max_new_tokens: int | None = Field(default=None, ge=1)
    temperature: float | None = Field(default=None, gt=0)
    max_staleness: int | None = Field(default=None, ge=0)
    """At most the stage's."""
    weight: float = Field(default=1.0, gt=0)
    """How much a reply counts in the loss, against those of other domains."""
    reward: RewardParts = RewardParts()
    normaliser: normalisers.Kind = "none"
    clip: float | None = Field(default=None, gt=0)
    """Rewards are cut to plus or minus so much, after the normaliser; None is 5 for `running`, and else no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What stage `rl` does for a domain."""

    config: Config
    """The stage's options as they are for this domain."""
    choice: Choice
    reward: RewardParts
    normaliser: normalisers.Kind
    clip: float
    """Rewards are cut to plus or minus so much, after the normaliser."""
    weight: float

    @property
    def compares(self) -> bool:
        """Whether the replies to a prompt are compared, so that equal rewards teach nothing."""
        return compares_groups(self.choice) or self.normaliser in normalisers.WITHIN_GROUP

    def rewards(self, group: Group) -> list[float]:
        """The reward of each scored member, before the normaliser."""
        return [self.reward.total(member.verdict) for member in group.scored if member.verdict is not None]

    def parts(self, group: Group) -> list[Mapping[str, float]]:
        """The parts of each scored member as they are paid."""
        return [self.reward.paid(member.verdict) for member in group.scored if member.verdict is not None]

    def signal(self, verdict: Verdict) -> float:
        """What the scheduler knows of a reply: as far from another's as the rewards are, on the scale of scores.

        Replies of equal totals are alike to it, also where `component` would tell them apart.
        """
        assert verdict.score is not None, "only scored replies are asked for"
        return verdict.score if self.reward.outcome == POINTS else self.reward.total(verdict) / self.reward.most

    def is_wanted(self, group: Group) -> bool:
        """Whether a group has anything to teach."""
        if not self.compares:
            return bool(group.scored)
        if self.normaliser == "component":  # by different parts, equal totals differ
            parts = self.parts(group)
            return any(one != parts[0] for one in parts)
        return len(set(self.rewards(group))) > 1


def stage_rule(config: Config) -> Rule:
    """What the stage does for domains that say nothing themselves."""
    return _rule(config, DomainOptions())


def rules_of(config: Config, entries: Sequence[TaskEntry]) -> Mapping[str, Rule]:
    """The rule of each name that tasks are reported under; `ConfigError` for what cannot be done."""
    rules: dict[str, Rule] = {}
    given: dict[str, tuple[int, TaskEntry]] = {}
    of_stage = stage_rule(config)
    for number, entry in enumerate(entries):
        first, other = given.setdefault(entry.report_name, (number, entry))
        if other.rl != entry.rl:
            raise ConfigError(
                f"tasks.{first} and tasks.{number} are both reported under {entry.report_name!r}, with different rl; "
                "give them one, or a group of their own each"
            )
        if first == number:
            rules[entry.report_name] = _own_rule(config, entry, f"tasks.{number}.rl") if entry.rl else of_stage
    return rules


def scheduler_config(config: Config, rules: Mapping[str, Rule]) -> SchedulerConfig:
    """The options of the scheduler, with the groups of each domain."""
    of_all = config.scheduler_config()
    compares = any(rule.compares for rule in rules.values())
    groups = {
        name: GroupRules(
            group_size=rule.config.group_size, max_staleness=rule.config.max_staleness, needs_signal=rule.compares
        )
        for name, rule in rules.items()
    }
    own = {"groups": groups, "max_draws_factor": config.max_draws_factor if compares else 1.0}
    return of_all.model_copy(update=own)


def _own_rule(config: Config, entry: TaskEntry, where: str) -> Rule:
    own = validate(DomainOptions, entry.rl, where)
    if own.max_staleness is not None and own.max_staleness > config.max_staleness:
        raise ConfigError(
            f"{where}: max_staleness ({own.max_staleness}) is above the stage's ({config.max_staleness}), which bounds "
            "all domains; lower it, or raise the stage's"
        )
    has_values = needs_values(load_rollout_objective(config.objective, config.objective_options))
    touched = [name for name in OF_UPDATE if name in own.model_fields_set]
    if has_values and touched:
        raise ConfigError(
            f"{where}: the stage's objective {config.objective!r} has one value model for all domains; leave out "
            f"{' and '.join(touched)}, or take an objective of groups for the stage"
        )
    rule = _rule(validate(Config, _on_top(config, own), where), own)
    if needs_values(rule.choice) and not has_values:
        raise ConfigError(
            f"{where}: objective {rule.config.objective!r} has a value model, which all domains share; make it the "
            "stage's objective"
        )
    for is_wrong, fault in _faults(rule):
        if is_wrong:
            raise ConfigError(f"{where}: {fault}")
    return rule


def _rule(config: Config, own: DomainOptions) -> Rule:
    unclipped = normalisers.RUNNING_CLIP if own.normaliser == "running" else math.inf
    return Rule(
        config=config,
        choice=load_rollout_objective(config.objective, config.objective_options),
        reward=own.reward,
        normaliser=own.normaliser,
        clip=unclipped if own.clip is None else own.clip,
        weight=own.weight,
    )


def _on_top(config: Config, own: DomainOptions) -> dict[str, object]:
    """The stage's options as the recipe has them, with the domain's in their place."""
    kept = config.model_dump(exclude_unset=True)
    said = own.model_dump(exclude_unset=True, exclude={"weight", "reward", "normaliser", "clip"})
    if "objective" in said:
        kept = {name: value for name, value in kept.items() if name not in OF_OBJECTIVE}
    elif "objective_options" in said:
        said["objective_options"] = config.objective_options | own.objective_options
    if said.get("max_staleness") == 0:
        kept = {name: value for name, value in kept.items() if name not in OF_ASYNCHRONY}
    return kept | said


def _faults(rule: Rule) -> list[tuple[bool, str]]:
    """What would do nothing, or what the objective cannot take."""
    name, kind, size = rule.config.objective, rule.normaliser, rule.config.group_size
    largest = _largest(rule)
    return [
        (
            kind in normalisers.WITHIN_GROUP and size < 2,
            f"normaliser {kind!r} compares the replies to a prompt; set group_size (now {size}) to at least 2, or "
            "take 'running'",
        ),
        (
            kind == "component" and len(rule.reward.names) < 2,
            "normaliser 'component' normalises each part of a reward by itself, and this reward has one; name parts "
            "in reward, or take 'group'",
        ),
        (
            kind in ("group", "running") and _is_free_of_scale(rule),
            f"objective {name!r} measures replies in units of their group's spread, so normaliser {kind!r} would do "
            "nothing; leave it out, or take an objective that keeps the scale, for example 'dr_grpo'",
        ),
        (
            hasattr(rule.choice.module, "DIVIDES_BY_MEAN") and (kind != "none" or bool(rule.reward.cost)),
            f"objective {name!r} divides by the mean reward of a group, which a normaliser or a cost could bring near "
            "0; leave normaliser and cost out, or take an objective that divides by the spread, for example 'grpo'",
        ),
        (
            rule.clip < math.inf and rule.clip >= largest,
            f"clip ({rule.clip:g}) does nothing, because these rewards are at most {largest:g}; lower it, or leave it "
            "out",
        ),
    ]


def _largest(rule: Rule) -> float:
    """No reward is further from 0, before it is clipped."""
    match rule.normaliser:
        case "none":
            return rule.reward.most
        case "rank":
            return 1.0
        case "group":
            return math.sqrt(max(rule.config.group_size - 1, 0))
        case "running" | "component":
            return math.inf


def _is_free_of_scale(rule: Rule) -> bool:
    """Whether the objective's advantages stay as they are where rewards are scaled and shifted."""
    if not compares_groups(rule.choice):
        return False
    rewards_G, advantages = torch.tensor([0.0, 1.0, 3.0], dtype=torch.float64), advantages_of(rule.choice)
    return torch.allclose(advantages(rewards_G), advantages(1000 * rewards_G + 7), rtol=1e-3)
