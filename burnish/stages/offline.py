"""Offline: train on stored trajectories, of this run or another, by an objective of `objectives/`.

The proximal policy is whoever sampled: `old_logprobs_T` are the stored log-probabilities, so that a ratio is to the
sampler whichever objective takes it, and nothing is left to correct. Advantages are those of all scored replies to a
prompt, made once; objectives that act on a whole step act on all that is stored. A reply is what is drawn: each epoch
has an order of its own. What is held out never trains, and a stage that goes on after a kill refuses other data than
it began with. `objective = "oapl"` regresses, `awr` imitates, `grpo@offline` and the other clipped ones weigh by
ratios; those that take replies to be of the policy that trains are refused.
The metric `kl_sampler` is k3 from sampler to policy: how far training has left the stored replies.
Not covered: rewards in other places than the verdict's score.
"""

import time
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Self

from pydantic import Field, JsonValue, model_validator
from torch import Tensor

from burnish.core.errors import ConfigError
from burnish.learner.batch import Batch
from burnish.learner.packing import Row
from burnish.learner.policy import LossFunction
from burnish.learner.ranked_policy import AnyPolicy
from burnish.objectives import Loss, Streams, kl, ops
from burnish.objectives import aggregation as weighing
from burnish.objectives.dialects import Choice
from burnish.stages import offline_data, training
from burnish.stages.kept_data import keep_or_compare
from burnish.stages.order import epochs
from burnish.stages.progress import progress_bar
from burnish.stages.rl_credit import Shaping, credit_step, sampled_logprobs
from burnish.stages.rl_loss import advantages_of, compares_groups, is_on_policy, load_group_objective, needs_sampler
from burnish.stages.session import Session
from burnish.stages.updates import Updates

TRAINS = True

MakeBatch = Callable[[Sequence[Row]], Batch]


class Config(Updates):
    """Options of the stage."""

    data: str = ""
    """A Parquet file that stage `rl` wrote, a folder of them, or a run's folder; "" is this run's own."""
    objective: str = "oapl"
    """A file of `objectives`, or `NAME@DIALECT`."""
    objective_options: dict[str, JsonValue] = {}
    aggregation: weighing.Kind | None = None
    """How token losses become one number; None is the objective's own (its paper's)."""
    temperature: float = Field(1.0, gt=0)
    """That at which the replies were sampled."""
    num_epochs: int = Field(1, ge=1)
    batch_size: int = Field(64, ge=1)
    """Replies an update."""
    kl_kind: kl.PenaltyKind = "k2"
    kl_coefficient: float = Field(0.0, ge=0)
    """Pull towards the policy that the stage began with."""
    learning_rate: float = Field(2e-4, gt=0)
    checkpoint_every: int = Field(20, ge=1)
    """Updates between checkpoints."""

    @model_validator(mode="after")
    def _options_fit(self) -> Self:
        if self.data and not Path(self.data).exists():
            raise ValueError(
                f"data: no file or folder {self.data!r} in {str(Path.cwd())!r}; leave it out for this run's"
            )
        try:
            choice = load_group_objective(self.objective, self.objective_options, stage="offline", instead="oapl")
        except ConfigError as error:
            raise ValueError(str(error)) from None
        self._check_conflicts(choice)
        return self

    def _check_conflicts(self, choice: Choice) -> None:
        if is_on_policy(choice):
            raise ValueError(
                f"objective {self.objective!r} takes replies to be of the policy that trains, and stored ones are not; "
                "choose for example 'oapl', 'awr' or 'grpo@offline'"
            )
        if "ratio_to_sampler" in self.objective_options:
            raise ValueError(
                "objective_options: stored replies have no policy but their sampler; leave ratio_to_sampler out"
            )
        kind = self.aggregation or choice.aggregation
        if kind in ("sum_over_max_length", "pair_mean"):
            raise ValueError(
                f"aggregation {kind!r} needs a limit of lengths or pairs, and stored replies have none; "
                "choose for example aggregation 'token_mean'"
            )
        if self.kl_kind == "top_k":
            raise ValueError("kl_kind 'top_k' is of stage 'rl'; choose 'k2' or 'k3'")
        if "kl_kind" in self.model_fields_set and not self.kl_coefficient:
            raise ValueError("kl_kind does nothing while kl_coefficient is 0; set that, or leave kl_kind out")


def check_data(config: Config, never_train: AbstractSet[str]) -> None:
    """Find the files that are named, before anything runs; this run's own may not be there yet."""
    if config.data:
        offline_data.check_temperature(offline_data.files(Path(config.data)), config.temperature)


def check_ranks(config: Config) -> None:
    """`ConfigError` for what a learner of several ranks cannot do."""
    config.check_ranks()


def run(session: Session, config: Config) -> dict[str, Any]:
    """Train on what is stored; resumes after the last checkpoint."""
    choice = load_group_objective(config.objective, config.objective_options, stage="offline", instead="oapl")
    stored = _stored(session, config, choice)
    rows = [*chain.from_iterable(credit_step(stored.groups, advantages_of(choice), choice, Shaping()))]
    batches = epochs(rows, config.num_epochs, config.batch_size, session.train_seed)
    make_batch, loss = _batch_maker(session.policy, config, choice), _composed(config, choice)
    session.policy.reset_optimiser(config.optimiser_config())
    first = training.resume(session)
    with progress_bar(session.console) as progress:
        bar = progress.add_task("offline", total=len(batches), completed=first, note="")
        for step in range(first, len(batches)):
            metrics = _step(session, config, make_batch(batches[step]), loss, step, len(batches))
            progress.update(bar, advance=1, note=f"loss {metrics['loss']:.3f}")
            if (step + 1) % config.checkpoint_every == 0:
                training.save(session, step + 1)
    return training.finish(session) | stored.counts._asdict()


def _stored(session: Session, config: Config, choice: Choice) -> offline_data.Stored:
    place = Path(config.data) if config.data else session.folder.path
    paths = offline_data.files(place)
    offline_data.check_temperature(paths, config.temperature)
    keep_or_compare(session, {path.name: path for path in paths})
    vocabulary: int = session.loaded.model.config.get_text_config().vocab_size
    stored = offline_data.read(
        paths, session.means.chat, vocabulary, session.held_out_prompts(), needs_signal=compares_groups(choice)
    )
    if needs_sampler(choice):
        offline_data.check_logprobs(stored.groups, f"objective {config.objective!r}")
    told = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in stored.counts._asdict().items())
    session.console.print(f"{session.stage_name}: {told}, prompts {len(stored.groups)}", style="dim")
    return stored


def _batch_maker(policy: AnyPolicy, config: Config, choice: Choice) -> MakeBatch:
    """What makes rows a batch; the reference is the policy as it is now."""
    beginning = policy.frozen() if config.kl_coefficient else None

    def reference(rows: Sequence[Row]) -> list[Tensor] | None:
        return beginning.logprobs(rows, config.temperature) if beginning else None

    def make(rows: Sequence[Row]) -> Batch:
        in_order = sorted(rows, key=lambda row: row.token_ids)  # replies to one prompt share its forward
        return Batch(
            rows=in_order,
            aggregate=config.aggregation or choice.aggregation,
            max_length=1,
            temperature=config.temperature,
            old_logprobs=[sampled_logprobs(row) for row in in_order],
            ref_logprobs=reference(in_order),
        )

    return make


def _composed(config: Config, choice: Choice) -> LossFunction:
    terms: list[LossFunction] = [partial(choice.module.loss, config=choice.config), _distance]
    if config.kl_coefficient:
        terms.append(partial(kl.penalty, kind=config.kl_kind, coefficient=config.kl_coefficient))
    return partial(_sum_of, terms=terms)


def _sum_of(s: Streams, terms: Sequence[LossFunction]) -> Loss:
    return ops.add(*(term(s) for term in terms))


def _distance(s: Streams) -> Loss:
    rollout_logprobs_T = ops.required(s.rollout_logprobs_T, "rollout_logprobs_T")
    measured = {"kl_sampler": ops.metric(kl.k3(rollout_logprobs_T, s.new_logprobs_T.detach()), s)}
    return Loss(total=s.new_logprobs_T.new_zeros(()), metrics=measured)


def _step(
    session: Session, config: Config, batch: Batch, loss: LossFunction, step: int, num_steps: int
) -> dict[str, float]:
    started = time.monotonic()
    metrics = session.policy.forward_backward(batch, loss)
    rate = config.rate(step, num_steps)
    norm = session.policy.optim_step(rate)
    session.metrics.log(
        step, session.stage_name, **metrics, grad_norm=norm, learning_rate=rate, train_s=time.monotonic() - started,
        tokens_trained=sum(row.num_trained for row in batch.rows),
    )  # fmt: skip
    session.heartbeat()
    return metrics
