"""One update of stage `rl`, the same for both of its loops: a step's training, and what is written of it.

An update is a batch for each algorithm that its replies need: their gradients add up before the optimiser's one step.
Every batch is divided once by its own weight, and counts by its replies times the weight of its domains. Stored replies
that are replayed (`rl_experience`) are batches of their own, whose metrics are named for it.
"""

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

from burnish.core import metrics as metrics_log
from burnish.learner.batch import Batch
from burnish.learner.packing import Row
from burnish.learner.policy import LossFunction
from burnish.learner.ranked_policy import AnyPolicy
from burnish.objectives.dialects import Choice
from burnish.rollout import invariants
from burnish.rollout.approximation import approximations
from burnish.rollout.collapse import check_floor, collapse_message
from burnish.rollout.collect import StepRollouts
from burnish.rollout.groups import Group
from burnish.stages.rl_config import Config
from burnish.stages.rl_credit import FirstTrained, credit_step, from_the_start, key_of
from burnish.stages.rl_critic import Valued, value_metrics
from burnish.stages.rl_experience import PREFIX, Replayed, replay_loss
from burnish.stages.rl_loss import advantages_of, reads_sampler
from burnish.stages.rl_metrics import mean_scores, step_metrics
from burnish.stages.rl_mismatch import MISMATCH_LIMIT
from burnish.stages.rl_parts import part_metrics, watch_habits
from burnish.stages.rl_plan import Algorithm, Plan
from burnish.stages.rl_staleness import FRESH, AgeLimit, mismatch_of_fresh
from burnish.stages.session import Session


class _Credited(NamedTuple):
    """Rows, and the algorithm that they train by."""

    algorithm: Algorithm
    rows: list[Row]


class _Piece(NamedTuple):
    """The replies of one algorithm in an update, fresh or stored."""

    algorithm: Algorithm
    batch: Batch
    loss: LossFunction
    is_fresh: bool = True

    def measured(self, update: Mapping[str, float]) -> dict[str, float]:
        """What an update measured, under names that tell stored replies from fresh ones."""
        prefix = "" if self.is_fresh else PREFIX
        return {(name if name == "loss" else f"{prefix}{name}"): value for name, value in update.items()}


class _Part(NamedTuple):
    """One update: of the policy, and of the value model where there is one."""

    pieces: list[_Piece]
    valued: Valued | None

    @property
    def rows(self) -> list[Row]:
        """All that train."""
        return [row for piece in self.pieces for row in piece.batch.rows]


def train(
    session: Session, config: Config, plan: Plan, step: int, groups: Sequence[Group], *,
    age_limit: AgeLimit = FRESH,
) -> dict[str, float]:  # fmt: skip
    """Update on groups; returns what was measured."""
    with session.means.watchdog.waiting_for(lambda: f"the update of step {step}"):
        _check(session, plan, groups, age_limit)
        return _train(session, config, plan, step, groups, age_limit.first_trained)


def _check(session: Session, plan: Plan, groups: Sequence[Group], age_limit: AgeLimit) -> None:
    for rule, some in plan.by_rule(groups):
        most = None if age_limit.masks else age_limit.largest_lag(rule.config.max_staleness)
        invariants.check_groups(
            some, version=session.policy.version, max_staleness=most,
            stop_ids=session.means.chat.stop_ids, num_needed=2 if rule.compares else 1,
        )  # fmt: skip


def _train(
    session: Session, config: Config, plan: Plan, step: int, groups: Sequence[Group], first_trained: FirstTrained
) -> dict[str, float]:
    policy = session.policy
    rate = config.rate(step, config.num_steps)
    parts = _parts(session.policy, config, plan, groups, first_trained)
    if not parts:
        return {"tokens_trained": 0}
    parts, told = _with_stored(policy, plan, step, parts)
    limit = config.mismatch_limit or MISMATCH_LIMIT[session.loaded.dtype]
    fresh_mismatch = _fresh_mismatch(policy, plan, groups) if config.max_staleness else None
    moves_policy = plan.critic is None or step >= plan.critic.config.num_warmup_steps
    means = _Means()
    for number, part in enumerate(parts):
        if moves_policy:
            updates = [piece.measured(policy.forward_backward(piece.batch, piece.loss)) for piece in part.pieces]
            if number == 0:
                for piece, update in zip(part.pieces, updates, strict=True):
                    if piece.is_fresh:
                        _check_first_update(update, fresh_mismatch, limit, piece.algorithm.choice)
            means.add(_together(part.pieces, updates) | {"grad_norm": policy.optim_step(rate)})
        if plan.critic and part.valued:
            means.add(plan.critic.update(part.rows, part.valued, config.value_rate(step)))
    measured = means.take() | dict(plan.mismatch.take())
    check_floor(measured.get("entropy", math.inf), config.entropy_floor)
    measured |= dict(plan.corrected.take())
    measured |= dict(value_metrics([part.valued for part in parts if part.valued])) | dict(plan.rewards.metrics())
    num_trained = sum(row.num_trained for part in parts for row in part.rows)
    return measured | told | {"learning_rate": rate, "tokens_trained": num_trained}


def log_step(
    session: Session, plan: Plan, step: int, rollouts: StepRollouts, trained: Mapping[str, float],
    timing: Mapping[str, float],
) -> dict[str, float]:  # fmt: skip
    """Write a step's metrics; returns the mean reward of each domain that was trained on."""
    metrics = step_metrics(rollouts) | part_metrics(plan.rules, rollouts) | dict(trained)
    metrics |= watch_habits(session, plan.rules, plan.habits, metrics)
    for approximate in approximations(session.live_sources).values():
        metrics |= approximate.metrics()
    if "entropy" in trained:
        _watch_entropy(session, plan.entropies, trained["entropy"])
    started = time.monotonic()
    plan.course.observe(step, rollouts)
    timing = {**timing, "course_s": time.monotonic() - started}
    session.metrics.log(step, session.stage_name, **metrics, **timing, **session.means.verify_metrics())
    session.heartbeat()
    return mean_scores(rollouts) if rollouts.kept else {}


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


def _parts(
    policy: AnyPolicy, config: Config, plan: Plan, groups: Sequence[Group], first_trained: FirstTrained = from_the_start
) -> list[_Part]:
    """Split the groups into updates; what must be measured before the first update is measured here."""
    credited = _credited(config, plan, groups, first_trained)
    several = [_sorted_out(part) for part in _split(credited, config.updates_per_step)]
    parts = [pieces for pieces in several if pieces]  # all replies of a part may have been filtered
    rows_of_parts = [[row for piece in pieces for row in piece.rows] for pieces in parts]
    valued = plan.critic.value(rows_of_parts) if plan.critic else [None] * len(parts)
    is_scored_before = len(parts) > 1
    return [
        _Part(_pieces(policy, pieces, judged, is_scored_before=is_scored_before), judged)
        for pieces, judged in zip(parts, valued, strict=True)
    ]


def _credited(config: Config, plan: Plan, groups: Sequence[Group], first_trained: FirstTrained) -> list[_Credited]:
    """The rows of each group, in order."""
    rewards = plan.rewards.of(groups)
    rows_of: dict[str, list[Row]] = {}
    for algorithm, some in plan.by_algorithm(groups):
        rows_P = credit_step(
            some, advantages_of(algorithm.choice), algorithm.choice, algorithm.shaping,
            reward=lambda member: rewards[key_of(member)], filter_overlong=config.overlong_filter,
            is_by_turn=config.credit == "turn", first_trained=first_trained,
        )  # fmt: skip
        rows_of |= {group.id: rows for group, rows in zip(some, rows_P, strict=True)}
    return [_Credited(plan.algorithms[group.source_name], rows_of[group.id]) for group in groups]


def _sorted_out(part: Sequence[_Credited]) -> list[_Credited]:
    """The rows of each algorithm together, in order."""
    found: dict[int, _Credited] = {}
    for algorithm, rows in part:
        found.setdefault(id(algorithm), _Credited(algorithm, [])).rows.extend(rows)
    return [credited for credited in found.values() if credited.rows]


def _pieces(
    policy: AnyPolicy, several: Sequence[_Credited], valued: Valued | None, *, is_scored_before: bool
) -> list[_Piece]:
    whole = sum(algorithm.weight * len(rows) for algorithm, rows in several)
    pieces: list[_Piece] = []
    start = 0
    for algorithm, rows in several:
        temperature, end = algorithm.temperature, start + len(rows)
        batch = Batch(
            rows=rows,
            advantages=valued.advantages[start:end] if valued else None,
            aggregate=algorithm.aggregate,
            max_length=algorithm.max_length,
            temperature=temperature,
            old_logprobs=policy.logprobs(rows, temperature) if is_scored_before else None,
            ref_logprobs=algorithm.reference_logprobs(rows) if algorithm.reference_logprobs else None,
            ref_top=algorithm.reference_top(rows) if algorithm.reference_top else None,
            share=algorithm.weight * len(rows) / whole,
        )
        pieces.append(_Piece(algorithm, batch, algorithm.loss))
        start = end
    return pieces


def _with_stored(
    policy: AnyPolicy, plan: Plan, step: int, parts: Sequence[_Part]
) -> tuple[Sequence[_Part], dict[str, float]]:
    """The parts with what is replayed of stored replies, which are dealt out among them."""
    if plan.experience is None:
        return parts, {}
    temperatures = {name: algorithm.temperature for name, algorithm in plan.algorithms.items()}
    replayed, told = plan.experience.of(step, policy, temperatures)
    cap = plan.experience.config.cap
    found: list[_Part] = []
    for number, part in enumerate(parts):
        stored = [
            _stored_piece(plan.algorithms[one.name], one, slice(number, None, len(parts)), cap) for one in replayed
        ]
        found.append(part._replace(pieces=_shared([*part.pieces, *[piece for piece in stored if piece.batch.rows]])))
    return found, told


def _stored_piece(algorithm: Algorithm, replayed: Replayed, which: slice, cap: float) -> _Piece:
    batch = Batch(
        rows=replayed.rows[which],
        aggregate=algorithm.aggregate,
        max_length=algorithm.max_length,
        temperature=algorithm.temperature,
        old_logprobs=replayed.now_logprobs[which],
    )
    return _Piece(algorithm, batch, replay_loss(algorithm.choice, cap), is_fresh=False)


def _shared(pieces: Sequence[_Piece]) -> list[_Piece]:
    """Each piece with its share of the update: its replies times the weight of its domains."""
    whole = sum(piece.algorithm.weight * len(piece.batch.rows) for piece in pieces)
    return [
        piece._replace(batch=piece.batch._replace(share=piece.algorithm.weight * len(piece.batch.rows) / whole))
        for piece in pieces
    ]


def _split(credited: Sequence[_Credited], num_parts: int) -> list[Sequence[_Credited]]:
    bounds = [round(len(credited) * part / num_parts) for part in range(num_parts + 1)]
    return [credited[low:high] for low, high in pairwise(bounds) if high > low]


def _fresh_mismatch(policy: AnyPolicy, plan: Plan, groups: Sequence[Group]) -> float:
    """The largest mean gap of an algorithm."""
    return max(mismatch_of_fresh(policy, some, algorithm.temperature) for algorithm, some in plan.by_algorithm(groups))


def _check_first_update(update: Mapping[str, float], mismatch: float | None, limit: float, choice: Choice) -> None:
    invariants.check_mismatch(update["mismatch"] if mismatch is None else mismatch, limit)
    if "ratio" in update and not reads_sampler(choice):
        invariants.check_ratio(update["ratio"])


def _together(pieces: Sequence[_Piece], updates: Sequence[dict[str, float]]) -> dict[str, float]:
    """Several batches' metrics as one update's: losses add up, the others are means over the tokens that have them."""
    if len(updates) == 1:
        return updates[0]
    tokens = [sum(row.num_trained for row in piece.batch.rows) for piece in pieces]
    found: dict[str, float] = {}
    for name in dict.fromkeys(chain.from_iterable(updates)):
        having = [(num, update[name]) for num, update in zip(tokens, updates, strict=True) if name in update]
        total = sum(num * value for num, value in having)
        found[name] = sum(value for _, value in having) if name == "loss" else total / sum(num for num, _ in having)
    return found


class _Means:
    """Means over the updates that have a metric."""

    def __init__(self) -> None:
        self._sums: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()

    def add(self, metrics: Mapping[str, float]) -> None:
        """Count one update's."""
        self._sums.update(metrics)
        self._counts.update(metrics.keys())

    def take(self) -> dict[str, float]:
        """The means."""
        return {name: value / self._counts[name] for name, value in self._sums.items()}
