"""One update of stage `rl`, the same for both of its loops: what is chosen before the loop, and a step's training."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import NamedTuple

from burnish.core import metrics as metrics_log
from burnish.core.errors import ConfigError
from burnish.engine.types import SamplingParams
from burnish.learner.batch import Batch
from burnish.learner.packing import Row
from burnish.learner.policy import LossFunction, Policy
from burnish.learner.weights import Snapshot
from burnish.models.forward import head_of
from burnish.objectives import aggregation as weighing
from burnish.objectives.dialects import Choice
from burnish.rollout import invariants
from burnish.rollout.approximation import approximations
from burnish.rollout.attempts import NO_LIMIT
from burnish.rollout.collapse import check_floor, collapse_message
from burnish.rollout.collect import Collector, StepRollouts
from burnish.rollout.groups import Group
from burnish.rollout.mixture import Mixture
from burnish.stages.rl_config import Config
from burnish.stages.rl_credit import ReferenceLogprobs, ReferenceTop, Shaping, credit_step
from burnish.stages.rl_critic import Critic, PolicyAndCritic, Valued, new_critic, value_metrics
from burnish.stages.rl_loss import (
    advantages_of,
    compares_groups,
    compose,
    load_rollout_objective,
    multipliers_of,
    needs_values,
    reads_sampler,
)
from burnish.stages.rl_metrics import step_metrics
from burnish.stages.rl_mismatch import MISMATCH_LIMIT, Mismatch
from burnish.stages.rl_staleness import Corrected, mismatch_of_fresh
from burnish.stages.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What was chosen before the loop."""

    collector: Collector
    choice: Choice
    shaping: Shaping
    loss: LossFunction
    aggregate: weighing.Kind
    reference_logprobs: ReferenceLogprobs | None
    reference_top: ReferenceTop | None
    mismatch: Mismatch
    corrected: Corrected
    critic: Critic | None
    saved: PolicyAndCritic | None
    """What a checkpoint holds, where that is more than the policy."""
    entropies: list[float] = field(default_factory=list[float])
    """The policy's entropy at each step of the stage, in nats a token."""


class _Part(NamedTuple):
    """One update: of the policy, and of the value model where there is one."""

    batch: Batch
    valued: Valued | None


def make_plan(session: Session, config: Config) -> Plan:
    """Choose everything that a recipe leaves to choose, before the loop."""
    choice = load_rollout_objective(config.objective, config.objective_options)
    critic = _critic(session, config, choice)
    mismatch, corrected = Mismatch(), Corrected()
    multipliers = multipliers_of(config.used_correction(choice), config.correction_options)
    beginning = session.policy.snapshot() if config.kl_coefficient else None
    reference = _reference(session.policy, config, beginning)
    kl_in_reward = config.kl_coefficient if config.kl_in == "reward" else 0.0
    collector = Collector(
        means=session.means,
        ledger=session.ledger,
        mixture=Mixture(session.live_sources, seed=session.train_seed, exclude=session.held_out_prompts()),
        stage=session.position,
        seed=session.train_seed,
        group_size=config.group_size,
        params=SamplingParams(temperature=config.temperature, max_new_tokens=config.max_new_tokens or NO_LIMIT),
        is_wanted=(lambda group: group.has_signal) if compares_groups(choice) else (lambda group: bool(group.scored)),
    )
    return Plan(
        collector=collector,
        choice=choice,
        shaping=Shaping(
            overlong_cache=config.overlong_cache,
            max_length=config.max_new_tokens or 0,
            kl_coefficient=kl_in_reward,
            reference=reference if kl_in_reward else None,
        ),
        loss=compose(
            choice,
            multipliers=corrected.by(multipliers) if multipliers and config.max_staleness else multipliers,
            kl_kind=config.kl_kind,
            kl_coefficient=config.kl_coefficient - kl_in_reward,
            mismatch=mismatch,
            entropy_coefficient=config.entropy_bonus,
        ),
        aggregate=config.aggregation or choice.aggregation,
        reference_logprobs=None if kl_in_reward else reference,
        reference_top=_reference_top(session.policy, config, beginning),
        mismatch=mismatch,
        corrected=corrected,
        critic=critic,
        saved=critic and PolicyAndCritic(session.policy, critic),
    )


def _critic(session: Session, config: Config, choice: Choice) -> Critic | None:
    if not needs_values(choice):
        return None
    return new_critic(
        session.policy, config.value_model, choice.config, config.optimiser_config(),
        max_pack_tokens=session.recipe.learner.max_pack_tokens,
    )  # fmt: skip


def _reference(policy: Policy, config: Config, beginning: Snapshot | None) -> ReferenceLogprobs | None:
    if beginning is None:
        return None
    return lambda rows: policy.logprobs(rows, config.temperature, within=policy.as_snapshot(beginning))


def _reference_top(policy: Policy, config: Config, beginning: Snapshot | None) -> ReferenceTop | None:
    if beginning is None or config.kl_kind != "top_k":
        return None
    k, vocabulary = config.kl_top_k or 16, len(head_of(policy.model).weight_V_D)
    if k > vocabulary:
        raise ConfigError(f"kl_top_k is {k}, and the model has {vocabulary} tokens; set it to at most that many")
    return lambda rows: policy.top_tokens(rows, k, config.temperature, within=policy.as_snapshot(beginning))


def train(
    session: Session, config: Config, plan: Plan, step: int, groups: Sequence[Group], *, max_lag: int = 0
) -> dict[str, float]:
    """Update on groups whose tokens are at most `max_lag` versions old; returns what was measured."""
    with session.means.watchdog.waiting_for(lambda: f"the update of step {step}"):
        return _train(session, config, plan, step, groups, max_lag)


def _train(
    session: Session, config: Config, plan: Plan, step: int, groups: Sequence[Group], max_lag: int
) -> dict[str, float]:
    policy = session.policy
    invariants.check_groups(
        groups, version=policy.version, max_staleness=max_lag, stop_ids=session.means.chat.stop_ids,
        num_needed=2 if compares_groups(plan.choice) else 1,
    )  # fmt: skip
    rate = config.rate(step, config.num_steps)
    parts = _parts(session.policy, config, plan, groups)
    if not parts:
        return {"tokens_trained": 0}
    limit = config.mismatch_limit or MISMATCH_LIMIT[session.loaded.dtype]
    fresh_mismatch = mismatch_of_fresh(policy, groups, config.temperature) if config.max_staleness else 0.0
    moves_policy = plan.critic is None or step >= plan.critic.config.num_warmup_steps
    sums: Counter[str] = Counter()
    for number, (batch, valued) in enumerate(parts):
        if moves_policy:
            update = policy.forward_backward(batch, plan.loss)
            if number == 0:
                mismatch = fresh_mismatch if config.max_staleness else update["mismatch"]
                _check_first_update(update, mismatch, limit, is_to_sampler=reads_sampler(plan.choice))
            sums.update(update | {"grad_norm": policy.optim_step(rate)})
        if plan.critic and valued:
            sums.update(plan.critic.update(batch.rows, valued, config.value_rate(step)))
    means = {name: value / len(parts) for name, value in sums.items()} | dict(plan.mismatch.take())
    check_floor(means.get("entropy", math.inf), config.entropy_floor)
    means |= dict(plan.corrected.take())
    means |= value_metrics([part.valued for part in parts if part.valued])
    rows = [row for part in parts for row in part.batch.rows]
    return means | {"learning_rate": rate, "tokens_trained": sum(row.num_trained for row in rows)}


def log_step(
    session: Session, plan: Plan, step: int, rollouts: StepRollouts, trained: Mapping[str, float],
    timing: Mapping[str, float],
) -> dict[str, float]:  # fmt: skip
    """Write a step's metrics; returns the mean reward of each domain that was trained on."""
    metrics = step_metrics(rollouts) | dict(trained)
    for approximate in approximations(session.live_sources).values():
        metrics |= approximate.metrics()
    if "entropy" in trained:
        _watch_entropy(session, plan.entropies, trained["entropy"])
    session.metrics.log(step, session.stage_name, **metrics, **timing, **session.means.verify_metrics())
    session.heartbeat()
    return {
        name.removeprefix("reward/"): value
        for name, value in metrics.items()
        if name.startswith("reward/") and rollouts.kept
    }


def _watch_entropy(session: Session, entropies: list[float], newest: float) -> None:
    """Say so where the policy stops trying."""
    if not entropies:  # the stage begins, or goes on in a new process
        rows = metrics_log.read(session.folder.path / "metrics.jsonl")
        entropies += [
            row.values["entropy"] for row in rows if row.stage == session.stage_name and "entropy" in row.values
        ]
    entropies.append(newest)
    if (message := collapse_message(entropies)) is not None:
        session.console.print(message, style="yellow", markup=False)


def _parts(policy: Policy, config: Config, plan: Plan, groups: Sequence[Group]) -> list[_Part]:
    """Split the groups into updates; what must be measured before the first update is measured here."""
    credited = credit_step(
        groups, advantages_of(plan.choice), plan.choice, plan.shaping, filter_overlong=config.overlong_filter
    )
    several = [list(chain.from_iterable(part)) for part in _split(credited, config.updates_per_step)]
    parts = [rows for rows in several if rows]  # all replies of a part may have been filtered
    valued = plan.critic.value(parts) if plan.critic else [None] * len(parts)
    batches = [
        Batch(
            rows=rows,
            advantages=judged.advantages if judged else None,
            aggregate=plan.aggregate,
            max_length=config.max_new_tokens or 1,
            temperature=config.temperature,
            old_logprobs=policy.logprobs(rows, config.temperature) if len(parts) > 1 else None,
            ref_logprobs=plan.reference_logprobs(rows) if plan.reference_logprobs else None,
            ref_top=plan.reference_top(rows) if plan.reference_top else None,
        )
        for rows, judged in zip(parts, valued, strict=True)
    ]
    return [_Part(batch, judged) for batch, judged in zip(batches, valued, strict=True)]


def _split(groups: Sequence[list[Row]], num_parts: int) -> list[Sequence[list[Row]]]:
    bounds = [round(len(groups) * part / num_parts) for part in range(num_parts + 1)]
    return [groups[low:high] for low, high in pairwise(bounds) if high > low]


def _check_first_update(update: dict[str, float], mismatch: float, limit: float, *, is_to_sampler: bool) -> None:
    invariants.check_mismatch(mismatch, limit)
    if "ratio" in update and not is_to_sampler:
        invariants.check_ratio(update["ratio"])
