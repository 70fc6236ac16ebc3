"""Reinforcement learning: sample groups on live tasks, judge them, update on what they taught.

Synchronous: each step trains on samples of the weights that it starts from. Groups without signal (all
members scored alike) are replaced by fresh ones, up to `max_draws_factor` times the prompts of a step;
then the step goes on with what there is. Several steps in a row without any signal end the stage with an
error, because then nothing is being learned. Objective `ppo` compares no group: every scored reply trains, by a value
model beside the policy (`rl_critic`), which checkpoints keep with it.
"""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, NamedTuple

from burnish.core.errors import ConfigError
from burnish.engine.types import SamplingParams
from burnish.learner.batch import Batch
from burnish.learner.packing import Row
from burnish.learner.policy import LossFunction, Policy
from burnish.objectives import aggregation as weighing
from burnish.objectives.dialects import Choice
from burnish.rollout import invariants
from burnish.rollout.attempts import NO_LIMIT
from burnish.rollout.collect import Collector, StepRollouts
from burnish.rollout.groups import Group
from burnish.rollout.mixture import Mixture
from burnish.stages import training
from burnish.stages.flight import flight_record
from burnish.stages.progress import progress_bar
from burnish.stages.rl_config import Config
from burnish.stages.rl_credit import ReferenceLogprobs, Shaping, credit_step
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
from burnish.stages.session import Session

_MAX_STEPS_WITHOUT_SIGNAL = 3

TRAINS = True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What was chosen before the loop."""

    collector: Collector
    choice: Choice
    shaping: Shaping
    loss: LossFunction
    aggregate: weighing.Kind
    reference_logprobs: ReferenceLogprobs | None
    mismatch: Mismatch
    critic: Critic | None
    saved: PolicyAndCritic | None
    """What a checkpoint holds, where that is more than the policy."""


class _Part(NamedTuple):
    """One update: of the policy, and of the value model where there is one."""

    batch: Batch
    valued: Valued | None


def run(session: Session, config: Config) -> dict[str, Any]:
    """Train by reinforcement; resumes after the last checkpoint, from the rollouts that are kept."""
    plan = _plan(session, config)
    session.policy.reset_optimiser(config.optimiser_config())
    first = training.resume(session, plan.saved)
    if first:
        session.ledger.commit_steps(session.position, first - 1)
    num_barren = 0
    with progress_bar(session.console) as progress:
        bar = progress.add_task("rl", total=config.num_steps, completed=first, note="")
        for step in range(first, config.num_steps):
            rewards = _step(session, config, plan, step)
            num_barren = 0 if rewards else num_barren + 1
            if num_barren == _MAX_STEPS_WITHOUT_SIGNAL:
                raise ConfigError(_barren_message(config))
            progress.update(bar, advance=1, note=" ".join(f"{name} {value:.2f}" for name, value in rewards.items()))
            if (step + 1) % config.checkpoint_every == 0 or step + 1 == config.num_steps:
                training.settle(session, step, plan.saved)
    return training.finish(session)


def _plan(session: Session, config: Config) -> _Plan:
    choice = load_rollout_objective(config.objective, config.objective_options)
    critic = _critic(session, config, choice)
    mismatch = Mismatch()
    reference = _reference(session.policy, config)
    kl_in_reward = config.kl_coefficient if config.kl_in == "reward" else 0.0
    collector = Collector(
        means=session.means,
        ledger=session.ledger,
        mixture=Mixture(session.sources, seed=session.train_seed, exclude=session.held_out_prompts()),
        stage=session.position,
        seed=session.train_seed,
        group_size=config.group_size,
        params=SamplingParams(temperature=config.temperature, max_new_tokens=config.max_new_tokens or NO_LIMIT),
        is_wanted=(lambda group: group.has_signal) if compares_groups(choice) else (lambda group: bool(group.scored)),
    )
    return _Plan(
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
            multipliers=multipliers_of(config.used_correction(choice), config.correction_options),
            kl_kind=config.kl_kind,
            kl_coefficient=config.kl_coefficient - kl_in_reward,
            mismatch=mismatch,
        ),
        aggregate=config.aggregation or choice.aggregation,
        reference_logprobs=None if kl_in_reward else reference,
        mismatch=mismatch,
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


def _reference(policy: Policy, config: Config) -> ReferenceLogprobs | None:
    if not config.kl_coefficient:
        return None
    beginning = policy.snapshot()
    return lambda rows: policy.logprobs(rows, config.temperature, within=policy.as_snapshot(beginning))


def _step(session: Session, config: Config, plan: _Plan, step: int) -> dict[str, float]:
    """One step; returns the mean reward of each domain that was trained on, empty if there was no signal."""
    started = time.monotonic()
    factor = config.max_draws_factor if compares_groups(plan.choice) else 1.0
    max_draws = round(config.prompts_per_step * factor)
    first_draw = session.ledger.num_groups_before(session.position, step)
    rollouts = plan.collector.collect(step, first_draw, num_prompts=config.prompts_per_step, max_draws=max_draws)
    sampled = time.monotonic()
    with flight_record(session, step, rollouts.members):
        trained = _train(session, config, plan, step, rollouts) if rollouts.kept else {}
    metrics = step_metrics(rollouts) | trained
    timing = {"sample_and_judge_s": sampled - started, "train_s": time.monotonic() - sampled}
    session.metrics.log(step, session.stage_name, **metrics, **timing, **session.means.verify_metrics())
    session.heartbeat()
    return {
        name.removeprefix("reward/"): value
        for name, value in metrics.items()
        if name.startswith("reward/") and rollouts.kept
    }


def _train(session: Session, config: Config, plan: _Plan, step: int, rollouts: StepRollouts) -> dict[str, float]:
    policy = session.policy
    invariants.check_groups(
        rollouts.kept, version=policy.version, max_staleness=0, stop_ids=session.means.chat.stop_ids,
        num_needed=2 if compares_groups(plan.choice) else 1,
    )  # fmt: skip
    rate = config.rate(step, config.num_steps)
    parts = _parts(session.policy, config, plan, rollouts.kept)
    if not parts:
        return {"tokens_trained": 0}
    moves_policy = plan.critic is None or step >= plan.critic.config.num_warmup_steps
    sums: Counter[str] = Counter()
    for number, (batch, valued) in enumerate(parts):
        if moves_policy:
            update = policy.forward_backward(batch, plan.loss)
            if number == 0:
                limit = config.mismatch_limit or MISMATCH_LIMIT[session.loaded.dtype]
                _check_first_update(update, limit, is_to_sampler=reads_sampler(plan.choice))
            sums.update(update | {"grad_norm": policy.optim_step(rate)})
        if plan.critic and valued:
            sums.update(plan.critic.update(batch.rows, valued, config.value_rate(step)))
    means = {name: value / len(parts) for name, value in sums.items()} | dict(plan.mismatch.take())
    means |= value_metrics([part.valued for part in parts if part.valued])
    rows = [row for part in parts for row in part.batch.rows]
    return means | {"learning_rate": rate, "tokens_trained": sum(row.num_trained for row in rows)}


def _parts(policy: Policy, config: Config, plan: _Plan, groups: Sequence[Group]) -> list[_Part]:
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
        )
        for rows, judged in zip(parts, valued, strict=True)
    ]
    return [_Part(batch, judged) for batch, judged in zip(batches, valued, strict=True)]


def _split(groups: Sequence[list[Row]], num_parts: int) -> list[Sequence[list[Row]]]:
    bounds = [round(len(groups) * part / num_parts) for part in range(num_parts + 1)]
    return [groups[low:high] for low, high in pairwise(bounds) if high > low]


def _check_first_update(update: dict[str, float], limit: float, *, is_to_sampler: bool) -> None:
    invariants.check_mismatch(update["mismatch"], limit)
    if "ratio" in update and not is_to_sampler:
        invariants.check_ratio(update["ratio"])


def _barren_message(config: Config) -> str:
    return (
        f"stage 'rl': {_MAX_STEPS_WITHOUT_SIGNAL} steps in a row without a group whose members scored differently; "
        "nothing can be learned from that. Make the tasks easier (or harder, if all score 1), put more sft before, "
        f"or raise group_size (now {config.group_size}) or temperature (now {config.temperature})"
    )
