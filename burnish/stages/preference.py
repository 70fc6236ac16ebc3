"""Preferences: train on stored pairs of replies (or labelled replies) by a loss of `objectives/preferences`.

Pairs come from a file of them, or from the histories of runs: siblings of which one scored higher (`sibling_pairs`).

The reference is the policy that the stage begins with, and its log-probabilities are computed once, before the
first step. An update is made of batches that fit one pack each, so that no pair is torn apart; a pair that does not
fit is refused with the number of tokens that it needs. Held-out rows are measured at the beginning, at each
checkpoint and at the end (`eval/accuracy`, `eval/margin`): the share of pairs whose preferred reply is ahead in what
the loss compares, and by how much. For KTO the reference point of each update comes from its prompts with the next
one's reply. Not covered: a reference other than the beginning, several ranks.
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Self

import torch
from pydantic import Field, JsonValue, model_validator
from torch import Tensor

from burnish.core.errors import ConfigError
from burnish.learner.batch import Batch
from burnish.learner.packing import Row
from burnish.learner.policy import Policy, Scorer
from burnish.objectives import Loss, Streams, aggregation
from burnish.objectives.dialects import Choice
from burnish.objectives.preferences import kto
from burnish.stages import offline_data, training
from burnish.stages.order import epochs
from burnish.stages.preference_data import PairLine, ReplyLine, open_split, pair_rows, read_split, reply_row
from burnish.stages.progress import progress_bar
from burnish.stages.rl_loss import load_objective
from burnish.stages.session import Session
from burnish.stages.sibling_pairs import are_histories, open_pairs
from burnish.stages.updates import Updates

TRAINS = True


class Config(Updates):
    """Options of the stage."""

    data: str
    """A JSONL file: lines with prompt, chosen, rejected; for `kto` lines with prompt, reply, label. Or histories: a
    Parquet file that stage `rl` wrote, a folder of them, a run's folder; "" is this run's earlier stages."""
    least_gap: float = Field(0.5, gt=0, le=1)
    """Of histories: by how much the scores of two replies differ that make a pair."""
    eval_data: str = ""
    """Lines of the same kind that never train."""
    loss: str = "dpo"
    """A file of `objectives/preferences`, or `NAME@DIALECT`, for example `ipo@mean`."""
    loss_options: dict[str, JsonValue] = {}
    num_epochs: int = Field(1, ge=1)
    batch_size: int = Field(16, ge=1)
    """Pairs (or labelled replies) an update."""
    learning_rate: float = Field(1e-5, gt=0)
    checkpoint_every: int = Field(20, ge=1)
    """Updates between checkpoints."""

    @model_validator(mode="after")
    def _options_fit(self) -> Self:
        try:
            choice = load_objective(self.loss, self.loss_options, kind="preferences")
        except ConfigError as error:
            raise ValueError(str(error)) from None
        self._check_histories(choice)
        if "z0" in self.loss_options:
            raise ValueError("loss_options: 'z0' is estimated from each update; leave it out")
        if choice.module.LABELS == "replies" and self.batch_size < 2:
            raise ValueError(
                f"loss {self.loss!r} estimates its reference point from other rows; batch_size is at least 2"
            )
        return self

    def _check_histories(self, choice: Choice) -> None:
        if not are_histories(self.data):
            if "least_gap" in self.model_fields_set:
                raise ValueError("least_gap is of histories, and data is a file of pairs; leave least_gap out")
            return
        if choice.module.LABELS == "replies":
            raise ValueError(
                f"loss {self.loss!r} takes labelled replies, and histories give pairs; take 'dpo' or another of pairs"
            )
        if self.eval_data:
            raise ValueError(
                "eval_data is a file beside a file of pairs, and data are histories; leave it out, and put a stage "
                "'evaluate' behind"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Item:
    """What is drawn as a whole: the two rows of a pair, or one labelled reply; with its reference."""

    rows: Sequence[Row]
    ref_logprobs: Sequence[Tensor] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What was chosen before the loop."""

    choice: Choice
    train: Sequence[_Item]
    held_out: Sequence[_Item]
    beginning: Scorer
    max_pack_tokens: int


def check_data(config: Config, never_train: AbstractSet[str]) -> None:
    """Read the lines, or find the histories that are named, before anything runs."""
    if are_histories(config.data):
        if config.data:
            offline_data.files(Path(config.data))
        return
    choice = load_objective(config.loss, config.loss_options, kind="preferences")
    read_split(config.data, config.eval_data, _kind_of_line(choice), never_train)


def _kind_of_line(choice: Choice) -> type[ReplyLine] | type[PairLine]:
    return ReplyLine if choice.module.LABELS == "replies" else PairLine


def run(session: Session, config: Config) -> dict[str, Any]:
    """Train on the preferences; resumes after the last checkpoint."""
    plan = _plan(session, config)
    batches = _batches(plan, config, session.train_seed)
    session.policy.reset_optimiser(config.optimiser_config())
    first = training.resume(session)
    with progress_bar(session.console) as progress:
        bar = progress.add_task("preference", total=len(batches), completed=first, note="")
        for step in range(first, len(batches)):
            metrics = _step(session, config, plan, batches[step], step, len(batches))
            progress.update(bar, advance=1, note=f"loss {metrics['loss']:.3f} accuracy {metrics['accuracy']:.2f}")
            if (step + 1) % config.checkpoint_every == 0:
                training.save(session, step + 1)
    result = training.finish(session)  # first, so that the average of the weights is measured, which is what goes on
    measured = _measure(session.own_policy, plan)
    session.metrics.log(len(batches), session.stage_name, **measured)
    return result | measured


def _plan(session: Session, config: Config) -> _Plan:
    choice = load_objective(config.loss, config.loss_options, kind="preferences")
    max_pack_tokens = session.recipe.learner.max_pack_tokens
    train, held_out = _rows(session, config, choice)

    def items(rows: Sequence[Sequence[Row]], path: str) -> list[_Item]:
        if rows:
            _refuse_long(rows, max_pack_tokens, path)
        flat = [row for several in rows for row in several]
        scored = iter(session.policy.logprobs(flat, 1.0) if _needs_reference(choice) else ())
        return [_Item(rows=several, ref_logprobs=[*islice(scored, len(several))] or None) for several in rows]

    return _Plan(
        choice=choice,
        train=items(train, config.data),
        held_out=items(held_out, config.eval_data),
        beginning=session.policy.frozen(),
        max_pack_tokens=max_pack_tokens,
    )


def _needs_reference(choice: Choice) -> bool:
    """Whether the loss reads one: always, or by an option that few losses have."""
    return choice.module.NEEDS_REFERENCE or getattr(choice.config, "against_reference", False)


def _rows(session: Session, config: Config, choice: Choice) -> tuple[list[list[Row]], list[list[Row]]]:
    """Of each item that trains, and of each that is held out."""
    if are_histories(config.data):
        return open_pairs(session, config.data, config.least_gap), []
    chat = session.means.chat
    if choice.module.LABELS == "replies":
        labelled = open_split(session, config.data, config.eval_data, ReplyLine)
        return [[reply_row(chat, line)] for line in labelled.train], [
            [reply_row(chat, line)] for line in labelled.held_out
        ]
    pairs = open_split(session, config.data, config.eval_data, PairLine)
    return [pair_rows(chat, line) for line in pairs.train], [pair_rows(chat, line) for line in pairs.held_out]


def _refuse_long(items: Sequence[Sequence[Row]], max_pack_tokens: int, path: str) -> None:
    longest = max(sum(len(row.token_ids) for row in rows) for rows in items)
    if longest > max_pack_tokens:
        raise ConfigError(
            f"{path}: the longest item has {longest} tokens, which do not fit a pack of {max_pack_tokens}; set "
            f"learner.max_pack_tokens to at least {longest}, or leave the longest lines out"
        )


def _batches(plan: _Plan, config: Config, seed: int) -> list[list[_Item]]:
    """All batches; of labelled replies, a last one of a single reply is left out, which KTO cannot compare."""
    batches = epochs(plan.train, config.num_epochs, config.batch_size, seed)
    if plan.choice.module.LABELS == "pairs":
        return batches
    compared = [batch for batch in batches if len(batch) > 1]
    if not compared:
        raise ConfigError(f"{config.data}: loss {config.loss!r} compares a reply with others; add lines to the one")
    return compared


def _step(
    session: Session, config: Config, plan: _Plan, items: Sequence[_Item], step: int, num_steps: int
) -> dict[str, float]:
    started = time.monotonic()
    held_out = _measure(session.own_policy, plan) if step % config.checkpoint_every == 0 else {}
    metrics = _update(session.own_policy, plan, items)
    rate = config.rate(step, num_steps)
    norm = session.policy.optim_step(rate)
    session.metrics.log(
        step, session.stage_name, **metrics, **held_out, grad_norm=norm, learning_rate=rate,
        train_s=time.monotonic() - started,
        tokens_trained=sum(row.num_trained for item in items for row in item.rows),
    )  # fmt: skip
    session.heartbeat()
    return metrics


def _update(policy: Policy, plan: _Plan, items: Sequence[_Item]) -> dict[str, float]:
    """Add the gradient of the items' mean loss, one pack at a time; return the means."""
    config = _config_of_update(policy, plan, items)
    sums: Counter[str] = Counter()
    for part in _parts(items, plan.max_pack_tokens):
        share = len(part) / len(items)

        def loss(s: Streams, share: float = share) -> Loss:
            whole = plan.choice.module.loss(s, config)
            return replace(whole, total=whole.total * share)

        metrics = policy.forward_backward(_batch(part, plan.choice.aggregation), loss)
        sums.update({name: value * (1 if name == "loss" else share) for name, value in metrics.items()})
    return dict(sums)


def _config_of_update(policy: Policy, plan: _Plan, items: Sequence[_Item]) -> Any:
    """The loss's options, with KTO's reference point of this update."""
    if not isinstance(plan.choice.config, kto.Config):
        return plan.choice.config
    rows = [item.rows[0] for item in items]
    mismatched = [_answered_by(row, other) for row, other in zip(rows, [*rows[1:], rows[0]], strict=True)]
    now = policy.logprobs(mismatched, 1.0)
    then = plan.beginning.logprobs(mismatched, 1.0)
    log_ratios_B = torch.stack([(new_T - ref_T).sum() for new_T, ref_T in zip(now, then, strict=True)])
    return replace(plan.choice.config, z0=kto.reference_point(log_ratios_B))


def _answered_by(row: Row, other: Row) -> Row:
    reply = other.token_ids[other.prompt_length :]
    return Row(
        token_ids=row.prompt + reply,
        was_sampled=(False,) * row.prompt_length + other.was_sampled[other.prompt_length :],
    )


def _parts(items: Sequence[_Item], max_tokens: int) -> Iterator[list[_Item]]:
    """Cut into runs whose tokens fit one pack, whatever they share."""
    part: list[_Item] = []
    num_tokens = 0
    for item in items:
        cost = sum(len(row.token_ids) for row in item.rows)
        if part and num_tokens + cost > max_tokens:
            yield part
            part, num_tokens = [], 0
        part.append(item)
        num_tokens += cost
    yield part


def _batch(items: Sequence[_Item], aggregate: aggregation.Kind) -> Batch:
    refs = [logprobs_T for item in items for logprobs_T in item.ref_logprobs or ()]
    return Batch(
        rows=[row for item in items for row in item.rows], aggregate=aggregate, max_length=1, ref_logprobs=refs or None
    )


def _measure(policy: Policy, plan: _Plan) -> dict[str, float]:
    """The loss's metrics on the held-out items; none where there are none."""
    if not plan.held_out:
        return {}
    batch = _batch(plan.held_out, plan.choice.aggregation)
    lengths = [row.num_trained for row in batch.rows]
    repeats = torch.tensor(lengths)
    given = Streams(
        new_logprobs_T=torch.cat(policy.logprobs(batch.rows, 1.0)),
        weights_T=aggregation.weigh(batch.aggregate, lengths, max_length=1).weights_T,
        sequence_T=torch.arange(len(lengths)).repeat_interleave(repeats),
        advantages_T=torch.tensor([row.advantage for row in batch.rows]).repeat_interleave(repeats),
        ref_logprobs_T=torch.cat(list(batch.ref_logprobs)) if batch.ref_logprobs else None,
    )
    metrics = plan.choice.module.loss(given, plan.choice.config).metrics
    return {f"eval/{name}": float(value / given.weights_T.sum()) for name, value in metrics.items()}
