"""What stage `rl` chooses before its loop: where tasks come from, how each domain samples and is paid, what updates.

Domains whose updates are computed alike (objective, correction, aggregation, temperature, weight, and the length that
losses are divided by) share an `Algorithm`. A recipe that says nothing of single domains has one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from burnish.core.errors import ConfigError
from burnish.engine.types import SamplingParams
from burnish.learner.policy import LossFunction, Scorer
from burnish.learner.ranked_policy import AnyPolicy
from burnish.models.forward import head_of
from burnish.objectives import aggregation as weighing
from burnish.objectives.dialects import Choice
from burnish.rollout.attempts import NO_LIMIT
from burnish.rollout.collect import Collector, Sampling
from burnish.rollout.groups import Group
from burnish.rollout.interactions import Budget
from burnish.stages.curriculum import Course, open_course
from burnish.stages.histories import History, open_histories
from burnish.stages.rl_config import Config
from burnish.stages.rl_credit import ReferenceLogprobs, ReferenceTop, Shaping
from burnish.stages.rl_critic import Critic, PolicyAndCritic, new_critic
from burnish.stages.rl_domains import Rule, rules_of, stage_rule
from burnish.stages.rl_experience import Experience, open_experience
from burnish.stages.rl_loss import compose, multipliers_of, needs_values
from burnish.stages.rl_mismatch import Mismatch
from burnish.stages.rl_parts import Histories
from burnish.stages.rl_rewards import Rewards, WithRewards
from burnish.stages.rl_spending import Spending
from burnish.stages.rl_staleness import Corrected
from burnish.stages.session import Session
from burnish.stages.training import Saved

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """How replies become an update: one for all domains that do it alike."""

    choice: Choice
    shaping: Shaping
    loss: LossFunction
    aggregate: weighing.Kind
    max_length: int
    temperature: float
    weight: float
    reference_logprobs: ReferenceLogprobs | None
    reference_top: ReferenceTop | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What was chosen before the loop. `rules` and `algorithms` are by the name that tasks are reported under."""

    collector: Collector
    course: Course
    rules: Mapping[str, Rule]
    algorithms: Mapping[str, Algorithm]
    rewards: Rewards
    mismatch: Mismatch
    corrected: Corrected
    critic: Critic | None
    spending: Spending
    experience: Experience | None
    saved: Saved | None
    """What a checkpoint holds, where that is more than the policy."""
    entropies: list[float] = field(default_factory=list[float])
    """The policy's entropy at each step of the stage, in nats a token."""
    habits: Histories = field(default_factory=Histories)
    """Of each domain with process parts: what its replies did at each step."""

    @property
    def compares(self) -> bool:
        """Whether there are domains whose groups teach nothing where all rewards are alike."""
        return any(rule.compares for rule in self.rules.values())

    def by_algorithm(self, groups: Sequence[Group]) -> list[tuple[Algorithm, list[Group]]]:
        """The groups of each algorithm that has any, in order."""
        return _by(self.algorithms, groups)

    def by_rule(self, groups: Sequence[Group]) -> list[tuple[Rule, list[Group]]]:
        """The groups of each rule that has any, in order."""
        return _by(self.rules, groups)


def _by(of_name: Mapping[str, T], groups: Sequence[Group]) -> list[tuple[T, list[Group]]]:
    found: dict[int, tuple[T, list[Group]]] = {}
    for group in groups:
        one = of_name[group.source_name]
        found.setdefault(id(one), (one, []))[1].append(group)
    return list(found.values())


def make_plan(session: Session, config: Config) -> Plan:
    """Choose everything that a recipe leaves to choose, before the loop."""
    of_stage = stage_rule(config)
    rules = rules_of(config, [source.entry for source in session.live_sources])
    rewards = Rewards(rules)
    if config.carry_moments:
        rewards.carry_over(session.folder.checkpoint(session.checkpoint))
    critic = _critic(session, config, of_stage.choice)
    weights = PolicyAndCritic(session.own_policy, critic) if critic else session.policy
    mismatch, corrected = Mismatch(), Corrected()
    algorithms = _Algorithms(session.policy, config, mismatch, corrected)
    course = open_course(session, config)
    collector = _collector(session, config, rules, course)
    histories = _histories(session, config, rules)
    by_name = {name: algorithms.of(rule) for name, rule in rules.items()}
    return Plan(
        collector=collector,
        course=course,
        rules=rules,
        algorithms=by_name,
        spending=Spending(session, collector, config.aim, histories),
        experience=_experience(session, config, rules, by_name, histories),
        rewards=rewards,
        mismatch=mismatch,
        corrected=corrected,
        critic=critic,
        saved=WithRewards(weights, rewards) if rewards.has_state else weights if critic else None,
    )


def _collector(session: Session, config: Config, rules: Mapping[str, Rule], course: Course) -> Collector:
    return Collector(
        means=session.means,
        ledger=session.ledger,
        mixture=course.mixture,
        stage=session.position,
        seed=session.train_seed,
        group_size=config.group_size,
        params=_params(config),
        own={name: Sampling(rule.config.group_size, _params(rule.config)) for name, rule in rules.items()},
        is_wanted=lambda group: rules[group.source_name].is_wanted(group),
        budget=Budget(most=config.max_interactions),
    )


def _histories(session: Session, config: Config, rules: Mapping[str, Rule]) -> History | None:
    if config.histories is None:
        return None
    found = open_histories(session, config.histories, sorted({rule.config.temperature for rule in rules.values()}))
    session.console.print(
        f"{session.stage_name}: histories of {len(found.placed)} tasks; replies to no task of this recipe: "
        f"{found.num_elsewhere}",
        style="dim",
    )
    return found


def _experience(
    session: Session, config: Config, rules: Mapping[str, Rule], algorithms: Mapping[str, Algorithm],
    histories: History | None,
) -> Experience | None:  # fmt: skip
    if config.replay is None or histories is None:
        return None
    return open_experience(
        [one.group for one in histories.placed], rules, config.replay,
        num_fresh=config.prompts_per_step * config.group_size, is_by_turn=config.credit == "turn",
        filter_overlong=config.overlong_filter, seed=session.train_seed,
        shapings={name: algorithm.shaping for name, algorithm in algorithms.items()},
    )  # fmt: skip


def _params(config: Config) -> SamplingParams:
    return SamplingParams(temperature=config.temperature, max_new_tokens=config.max_new_tokens or NO_LIMIT)


def _critic(session: Session, config: Config, choice: Choice) -> Critic | None:
    if not needs_values(choice):
        return None
    return new_critic(
        session.own_policy, config.value_model, choice.config, config.optimiser_config(),
        max_pack_tokens=session.recipe.learner.max_pack_tokens,
    )  # fmt: skip


class _Algorithms:
    """Makes each algorithm once."""

    def __init__(self, policy: AnyPolicy, config: Config, mismatch: Mismatch, corrected: Corrected) -> None:
        self._policy, self._config = policy, config
        self._mismatch, self._corrected = mismatch, corrected
        self._beginning = policy.frozen() if config.kl_coefficient else None
        self._made: list[tuple[object, Algorithm]] = []

    def of(self, rule: Rule) -> Algorithm:
        """The algorithm of a rule."""
        key = _key(rule)
        for made_for, algorithm in self._made:
            if made_for == key:
                return algorithm
        self._made.append((key, self._make(rule)))
        return self._made[-1][1]

    def _make(self, rule: Rule) -> Algorithm:
        config, choice = rule.config, rule.choice
        multipliers = multipliers_of(config.used_correction(choice), config.correction_options)
        reference = _reference(config, self._beginning)
        kl_in_reward = config.kl_coefficient if config.kl_in == "reward" else 0.0
        return Algorithm(
            choice=choice,
            shaping=Shaping(
                overlong_cache=config.overlong_cache,
                max_length=config.max_new_tokens or 0,
                kl_coefficient=kl_in_reward,
                reference=reference if kl_in_reward else None,
            ),
            loss=compose(
                choice,
                multipliers=self._corrected.by(multipliers) if multipliers and config.max_staleness else multipliers,
                kl_kind=config.kl_kind,
                kl_coefficient=config.kl_coefficient - kl_in_reward,
                mismatch=self._mismatch,
                entropy_coefficient=config.entropy_bonus,
            ),
            aggregate=config.aggregation or choice.aggregation,
            max_length=config.max_new_tokens or 1,
            temperature=config.temperature,
            weight=rule.weight,
            reference_logprobs=None if kl_in_reward else reference,
            reference_top=_reference_top(self._policy, config, self._beginning),
        )


def _key(rule: Rule) -> object:
    """Equal keys, equal updates."""
    config, choice = rule.config, rule.choice
    aggregate = config.aggregation or choice.aggregation
    reads_length = aggregate == "sum_over_max_length" or config.overlong_cache
    return (
        choice, aggregate, config.used_correction(choice), config.correction_options, config.temperature, rule.weight,
        bool(config.max_staleness), config.max_new_tokens if reads_length else None,
    )  # fmt: skip


def _reference(config: Config, beginning: Scorer | None) -> ReferenceLogprobs | None:
    return None if beginning is None else lambda rows: beginning.logprobs(rows, config.temperature)


def _reference_top(policy: AnyPolicy, config: Config, beginning: Scorer | None) -> ReferenceTop | None:
    if beginning is None or config.kl_kind != "top_k":
        return None
    k, vocabulary = config.kl_top_k or 16, len(head_of(policy.model).weight_V_D)
    if k > vocabulary:
        raise ConfigError(f"kl_top_k is {k}, and the model has {vocabulary} tokens; set it to at most that many")
    return lambda rows: beginning.top_tokens(rows, k, config.temperature)
