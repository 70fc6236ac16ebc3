"""Reinforcement learning: sample groups on live tasks, judge them, update on what they taught.

Synchronous: each step trains on samples of the weights that it starts from. Groups without signal (all
members scored alike) are replaced by fresh ones, up to `max_draws_factor` times the prompts of a step;
then the step goes on with what there is. Several steps in a row without any signal end the stage with an
error, because then nothing is being learned.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import torch
from pydantic import Field, JsonValue, model_validator
from torch import Tensor

from burnish.core.config import Strict
from burnish.core.errors import ConfigError
from burnish.data import trajectory_files
from burnish.engine.types import SamplingParams
from burnish.learner.packing import Row
from burnish.learner.policy import Batch, LossFunction, OptimiserConfig, Policy
from burnish.learner.schedule import Decay, learning_rate
from burnish.objectives import aggregation as weighing
from burnish.objectives.kl import PenaltyKind
from burnish.rollout import invariants
from burnish.rollout.attempts import NO_LIMIT
from burnish.rollout.collect import Collector, StepRollouts
from burnish.rollout.groups import Advantages, Group, credit
from burnish.rollout.mixture import Mixture
from burnish.stages import training
from burnish.stages.flight import flight_record
from burnish.stages.progress import progress_bar
from burnish.stages.rl_loss import Correction, advantages_of, compose, load_objective
from burnish.stages.rl_metrics import step_metrics
from burnish.stages.session import Session

_MAX_STEPS_WITHOUT_SIGNAL = 3
_MISMATCH_LIMIT = {torch.float32: 1e-3, torch.bfloat16: 0.15}

TRAINS = True


class Config(Strict):
    """Options of the stage."""

    num_steps: int = Field(ge=1)
    prompts_per_step: int = Field(8, ge=1)
    group_size: int = Field(8, ge=2)
    updates_per_step: int = Field(1, ge=1)
    """A step's groups are split into that many updates; from the second on, the ratio moves and clips."""
    max_draws_factor: float = Field(2.0, ge=1)
    temperature: float = Field(1.0, gt=0)
    max_new_tokens: int | None = Field(None, ge=1)
    """Lowers the tasks' own limits."""
    objective: str = "dapo"
    """DAPO is GRPO with a mean over tokens, clip-higher and refill of groups without signal."""
    objective_options: dict[str, JsonValue] = {}
    aggregation: weighing.Kind | None = None
    """How token losses become one number; None is the objective's own (its paper's)."""
    correction: Correction = "tis"
    kl_kind: PenaltyKind = "k2"
    kl_coefficient: float = Field(0.0, ge=0)
    """Pull towards the policy that the stage began with."""
    learning_rate: float = Field(2e-4, gt=0)
    num_warmup: int = Field(2, ge=0)
    decay: Decay = "constant"
    weight_decay: float = Field(0.0, ge=0)
    max_grad_norm: float = Field(1.0, gt=0)
    checkpoint_every: int = Field(5, ge=1)

    @model_validator(mode="after")
    def _options_fit(self) -> Self:
        if self.updates_per_step > self.prompts_per_step:
            raise ValueError("updates_per_step is larger than prompts_per_step; each update needs a group")
        try:
            objective, _ = load_objective(self.objective, self.objective_options)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        if (self.aggregation or objective.AGGREGATION) == "sum_over_max_length" and self.max_new_tokens is None:
            raise ValueError("aggregation 'sum_over_max_length' divides by max_new_tokens; set it")
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What was chosen before the loop."""

    collector: Collector
    advantages: Advantages
    loss: LossFunction
    aggregate: weighing.Kind
    reference_logprobs: Callable[[Sequence[Row]], list[Tensor] | None]


def run(session: Session, config: Config) -> dict[str, Any]:
    """Train by reinforcement; resumes after the last checkpoint, from the rollouts that are kept."""
    plan = _plan(session, config)
    session.policy.reset_optimiser(
        OptimiserConfig(weight_decay=config.weight_decay, max_grad_norm=config.max_grad_norm)
    )
    first = training.resume(session)
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
                _settle(session, step)
    return training.finish(session)


def _plan(session: Session, config: Config) -> _Plan:
    objective, options = load_objective(config.objective, config.objective_options)
    collector = Collector(
        means=session.means,
        ledger=session.ledger,
        mixture=Mixture(session.sources, seed=session.train_seed, exclude=session.held_out_prompts()),
        stage=session.position,
        seed=session.train_seed,
        group_size=config.group_size,
        params=SamplingParams(temperature=config.temperature, max_new_tokens=config.max_new_tokens or NO_LIMIT),
    )
    return _Plan(
        collector=collector,
        advantages=advantages_of(objective, options),
        loss=compose(
            objective, options, correct=config.correction, kl_kind=config.kl_kind, kl_coefficient=config.kl_coefficient
        ),
        aggregate=config.aggregation or objective.AGGREGATION,
        reference_logprobs=_reference(session.policy, config),
    )


def _reference(policy: Policy, config: Config) -> Callable[[Sequence[Row]], list[Tensor] | None]:
    if not config.kl_coefficient:
        return lambda rows: None
    beginning = policy.snapshot()
    return lambda rows: policy.logprobs(rows, config.temperature, within=policy.as_snapshot(beginning))


def _step(session: Session, config: Config, plan: _Plan, step: int) -> dict[str, float]:
    """One step; returns the mean reward of each domain that was trained on, empty if there was no signal."""
    started = time.monotonic()
    max_draws = round(config.prompts_per_step * config.max_draws_factor)
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
        rollouts.kept, version=policy.version, max_staleness=0, stop_ids=session.means.chat.stop_ids
    )
    rate = learning_rate(
        step, peak=config.learning_rate, num_warmup=config.num_warmup, num_steps=config.num_steps, decay=config.decay
    )
    batches = _batches(session.policy, config, plan, rollouts.kept)
    sums: Counter[str] = Counter()
    for number, batch in enumerate(batches):
        update = policy.forward_backward(batch, plan.loss)
        if number == 0:
            _check_first_update(session, update)
        sums.update(update | {"grad_norm": policy.optim_step(rate)})
    means = {name: value / len(batches) for name, value in sums.items()}
    return means | {"learning_rate": rate, "tokens_trained": sum(row.num_trained for b in batches for row in b.rows)}


def _batches(policy: Policy, config: Config, plan: _Plan, groups: Sequence[Group]) -> list[Batch]:
    """Split the groups into updates; what must be measured before the first update is measured here."""
    parts = [credit(part, plan.advantages) for part in _split(groups, config.updates_per_step)]
    return [
        Batch(
            rows=rows,
            aggregate=plan.aggregate,
            max_length=config.max_new_tokens or 1,
            temperature=config.temperature,
            old_logprobs=policy.logprobs(rows, config.temperature) if len(parts) > 1 else None,
            ref_logprobs=plan.reference_logprobs(rows),
        )
        for rows in parts
    ]


def _split(groups: Sequence[Group], num_parts: int) -> list[Sequence[Group]]:
    bounds = [round(len(groups) * part / num_parts) for part in range(num_parts + 1)]
    return [groups[low:high] for low, high in pairwise(bounds) if high > low]


def _check_first_update(session: Session, update: dict[str, float]) -> None:
    invariants.check_mismatch(update["mismatch"], _MISMATCH_LIMIT[session.loaded.dtype])
    if "ratio" in update:
        invariants.check_ratio(update["ratio"])


def _settle(session: Session, step: int) -> None:
    """Checkpoint the steps so far; their rollouts move to a file, then the ledger lets go of them."""
    rollouts = session.ledger.rollouts_up_to(session.position, step)
    if rollouts:
        trajectory_files.write(
            session.folder.path / "trajectories" / f"{session.stage_name}-step-{step:05d}.parquet", rollouts
        )
    training.save(session, step + 1)
    session.ledger.commit_steps(session.position, step)


def _barren_message(config: Config) -> str:
    return (
        f"stage 'rl': {_MAX_STEPS_WITHOUT_SIGNAL} steps in a row without a group whose members scored differently; "
        "nothing can be learned from that. Make the tasks easier (or harder, if all score 1), put more sft before, "
        f"or raise group_size (now {config.group_size}) or temperature (now {config.temperature})"
    )
