"""Reinforcement learning: sample groups on live tasks, judge them, update on what they taught.

With `max_staleness` 0, each step trains on samples of the weights that it starts from. Groups without signal (all
members scored alike) are replaced by fresh ones, up to `max_draws_factor` times the prompts of a step; then the step
goes on with what there is. Objectives that compare no group (`reinforce`, `reinforce_pp`) keep all. Several steps in a
row without any signal end the stage with an error, because then nothing is being learned. Objective `ppo` compares no
group: every scored reply trains, by a value model beside the policy (`rl_critic`), which checkpoints keep with it.

With `max_interactions` the stage ends, in one line, before it would take more of them (`rl_spending`). `aim` draws
tasks by what their replies have shown, and `replay` adds stored replies to the updates (`rl_experience`).

With `max_staleness` above 0 sampling goes on while verdicts are outstanding and weights change (`rl_stream`).
"""

import time
from collections.abc import Callable, Generator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing
from pathlib import Path
from typing import Any

from burnish.core import metrics
from burnish.core.errors import ConfigError
from burnish.core.recipe import EpisodesConfig, TaskEntry
from burnish.domains import Domain
from burnish.rollout.approximation import approximations
from burnish.rollout.episodes import check_trains
from burnish.rollout.phases import graph_lines
from burnish.rollout.scheduler import priority_function
from burnish.stages import offline_data, training
from burnish.stages.curriculum import check_signal, plan_of
from burnish.stages.guard import Guard, check_guard, gate_lines
from burnish.stages.guard_suites import refuse_shown
from burnish.stages.progress import progress_bar
from burnish.stages.rl_config import Config
from burnish.stages.rl_domains import rules_of
from burnish.stages.rl_loss import load_rollout_objective, needs_values
from burnish.stages.rl_plan import Plan, make_plan
from burnish.stages.rl_stream import asynchronous_steps
from burnish.stages.rl_update import log_step, train
from burnish.stages.session import Session

_MAX_STEPS_WITHOUT_SIGNAL = 3

TRAINS = True


def check_entries(config: Config, entries: Sequence[TaskEntry]) -> None:
    """`ConfigError` where a domain's own options or the scheduler's rules do not fit."""
    rules = rules_of(config, entries)
    check_signal(plan_of(config, entries), {name: rule.config.group_size for name, rule in rules.items()})
    check_guard(config.guard, entries)
    if config.carry_moments and not any(rule.normaliser == "running" for rule in rules.values()):
        raise ConfigError(
            "stage 'rl': carry_moments carries the moments of normaliser 'running', and no entry of tasks has it; set "
            "it in [tasks.rl], or leave carry_moments out"
        )
    if not config.max_staleness:
        return
    scheduler = config.scheduler_config()
    priority_function(scheduler)
    names = sorted({entry.report_name for entry in entries})
    if unknown := sorted(scheduler.domains.keys() - set(names)):
        raise ConfigError(
            f"stage 'rl': scheduler.domains has rules for {', '.join(map(repr, unknown))}, which no entry of tasks is "
            f"reported under; there are: {', '.join(names)}"
        )


def check_data(config: Config, never_train: AbstractSet[str]) -> None:
    """Find the histories that are named, before anything runs; this run's own may not be there yet."""
    if config.histories:
        offline_data.check_temperature(offline_data.files(Path(config.histories)), config.temperature)


def check_suites(config: Config, entries: Sequence[TaskEntry], shown: Callable[[], frozenset[str]]) -> None:
    """`ConfigError` for a guarded suite of which earlier stages show tasks."""
    if config.guard:
        refuse_shown(config.guard, entries, shown)


def check_domains(config: Config, domains: Sequence[Domain], episodes: EpisodesConfig) -> None:
    """`ConfigError` where the stage cannot train on what the opened domains are."""
    sizes = [domain.size("train") for domain in domains]
    if config.aim and None not in sizes and sum(size or 0 for size in sizes) < 2:
        raise ConfigError(
            "stage 'rl': aim chooses among tasks, and there is one to train on; add tasks, or leave aim out"
        )
    check_trains(domains, episodes, by_turn=config.credit == "turn")


def described(config: Config, entries: Sequence[TaskEntry]) -> list[str]:
    """The stage graph, where there is one, and the gates."""
    plan = plan_of(config, entries)
    gates = gate_lines(config.guard, entries, config.num_steps) if config.guard else []
    return [*(graph_lines(plan.rules) if plan.has_graph else []), *gates]


def check_ranks(config: Config) -> None:
    """`ConfigError` for what a learner of several ranks cannot do."""
    config.check_ranks()
    if needs_values(load_rollout_objective(config.objective, config.objective_options)):
        raise ConfigError(
            f"objective {config.objective!r} has a value model, which trains in one process; take an objective "
            "without one, for example 'grpo', or runtime.learner_ranks = 1"
        )


def run(session: Session, config: Config) -> dict[str, Any]:
    """Train by reinforcement; resumes after the last checkpoint, from the rollouts that are kept."""
    check_domains(config, [source.domain for source in session.live_sources], session.recipe.episodes)
    plan = make_plan(session, config)
    session.policy.reset_optimiser(config.optimiser_config())
    first = training.resume(session, plan.saved)
    if first:
        session.ledger.commit_steps(session.position, first - 1)
    _go_on_comparing(session)
    plan.course.restore(first)
    guard = Guard(
        session, config.guard, plan.course, config.num_steps, plan.saved, hands_on_average=config.ema_decay > 0
    )  # fmt: skip
    guard.begin(first)
    num_barren, num_done = 0, first
    with progress_bar(session.console) as progress, closing(_steps(session, config, plan, guard, first)) as taken:
        bar = progress.add_task("rl", total=config.num_steps, completed=first, note="")
        for step, rewards in enumerate(taken, start=first):
            num_barren = 0 if rewards else num_barren + 1
            if num_barren == _MAX_STEPS_WITHOUT_SIGNAL and plan.course.plan.is_still:  # else another domain may enter
                raise ConfigError(_barren_message(config))
            num_done = step + 1
            progress.update(bar, advance=1, note=" ".join(f"{name} {value:.2f}" for name, value in rewards.items()))
            is_last = step + 1 == config.num_steps
            if is_last or (step + 1) % config.checkpoint_every == 0 or guard.is_due(step + 1):
                training.settle(session, step, plan.saved, guard.keeps())
    if num_done != training.newest_step(session):  # the interactions were used up between two checkpoints
        training.settle(session, num_done - 1, plan.saved, guard.keeps())
    result = guard.finish(training.newest_step(session)) | plan.spending.result()
    plan.rewards.leave(session.folder.checkpoint(session.stage_name))
    return result


def _go_on_comparing(session: Session) -> None:
    """Let cheap verifiers that nobody has looked at in this process keep what was seen of them in earlier ones."""
    new = [one for one in approximations(session.live_sources).values() if not one.num_compared]
    for row in metrics.read(session.folder.path / "metrics.jsonl") if new else ():
        for approximate in new:
            approximate.go_on_from(row.values)


def _steps(session: Session, config: Config, plan: Plan, guard: Guard, first: int) -> Generator[dict[str, float]]:
    """Take the steps, and hold the gates that are due; a loop ends before a gate and another begins behind it."""
    loop = asynchronous_steps if config.max_staleness else synchronous_steps
    num_done, is_going_on = first, True
    while is_going_on and num_done < config.num_steps:
        is_going_on = False
        with closing(loop(session, config, plan, num_done)) as taken:
            for rewards in taken:
                yield rewards
                num_done += 1
                if is_going_on := guard.is_due(num_done):
                    break
        if is_going_on:
            guard.after(num_done)


def synchronous_steps(session: Session, config: Config, plan: Plan, first: int) -> Generator[dict[str, float]]:
    """Take the steps; yields of each the mean reward of each domain that was trained on, empty without signal."""
    factor = config.max_draws_factor if plan.compares else 1.0
    max_draws = round(config.prompts_per_step * factor)
    for step in range(first, config.num_steps):
        started = time.monotonic()
        first_draw = session.ledger.num_groups_before(session.position, step)
        if not plan.spending.goes_on(step, first_draw):
            return
        rollouts = plan.collector.collect(step, first_draw, num_prompts=config.prompts_per_step, max_draws=max_draws)
        sampled = time.monotonic()
        session.note_flight(step, rollouts.members)
        told = plan.spending.observe(step, rollouts)
        trained = train(session, config, plan, step, rollouts.kept) if rollouts.kept else {}
        timing = {"sample_and_judge_s": sampled - started, "train_s": time.monotonic() - sampled}
        yield log_step(session, plan, step, rollouts, trained | told, timing)


def _barren_message(config: Config) -> str:
    return (
        f"stage 'rl': {_MAX_STEPS_WITHOUT_SIGNAL} steps in a row without a group whose members scored differently; "
        "nothing can be learned from that. Make the tasks easier (or harder, if all score 1), put more sft before, "
        f"or raise group_size (now {config.group_size}) or temperature (now {config.temperature})"
    )
