"""Distillation on policy: the student samples, and a teacher says how probable what it sampled is.

`opd` follows the log-ratio of teacher to student at each sampled token (reverse KL, an estimate from that token);
`gkd` differentiates the generalised Jensen-Shannon divergence over the whole vocabulary at each of them, which is
exact and needs the teacher in this process. A step samples from the weights that it starts from, as in stage `rl`;
verdicts are asked for and shown (`reward/...`), and train nothing. Student and teacher are compared at the sampling
temperature. `reverse_kl` (`opd`) and `divergence` (`gkd`) are means over tokens, measured by the update on fresh
samples: they fall. With `student_share` (lambda of GKD, https://arxiv.org/abs/2306.13649, algorithm 1) below 1, `gkd`
draws for each step whether it samples, or takes stored replies: those that the task sources know to be right, as
stage `sft` does; there the distance is `divergence_stored`. Not covered: replies of the teacher, rewards beside the
teacher, several teachers, several ranks.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from random import Random
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from burnish.core.errors import ConfigError
from burnish.core.seeds import derive
from burnish.engine.endpoint import EndpointConfig
from burnish.engine.types import SamplingParams
from burnish.learner.batch import Batch
from burnish.learner.distil import divergence_backward
from burnish.learner.packing import Row
from burnish.learner.schedule import Decay
from burnish.models.load import check_name, load, load_tokenizer
from burnish.objectives import gkd
from burnish.rollout import invariants
from burnish.rollout.attempts import NO_LIMIT
from burnish.rollout.collect import Collector
from burnish.rollout.groups import Group
from burnish.rollout.mixture import Mixture
from burnish.stages import training
from burnish.stages.distill_teacher import EndpointTeacher, ModelTeacher, Teacher, check_heads, check_vocabulary
from burnish.stages.progress import progress_bar
from burnish.stages.rl_credit import sampled_logprobs
from burnish.stages.rl_loss import compose, load_objective
from burnish.stages.rl_metrics import step_metrics
from burnish.stages.rl_mismatch import MISMATCH_LIMIT, Mismatch
from burnish.stages.session import Session
from burnish.stages.sft import shown, taught
from burnish.stages.updates import Updates

TRAINS = True

Backward = Callable[[Sequence[Row], bool], dict[str, float]]
"""Adds the gradient of some rows to the policy's; given whether they are the first update of a step."""


class Config(Updates):
    """Options of the stage."""

    teacher: str
    """A model as `model.name` takes it. With `endpoint`: the model behind it, whose tokenizer is compared."""
    endpoint: EndpointConfig | None = None
    """A server that scores tokens (vLLM), instead of the teacher in this process."""
    objective: Literal["opd", "gkd"] = "opd"
    ratio_max: float | None = Field(None, ge=1)
    """Of `opd`: the bound on the ratio, from the second update of a step on; None is 2."""
    beta: float | None = Field(None, ge=0, le=1)
    """Of `gkd`: 0 is KL(teacher || student), 1 is KL(student || teacher); None is 0.5."""
    student_share: float | None = Field(None, ge=0, le=1)
    """Of `gkd` (its lambda): the share of steps with samples of the student; other steps train on replies that the
    tasks know to be right. None is 1."""
    num_steps: int = Field(ge=1)
    prompts_per_step: int = Field(8, ge=1)
    group_size: int = Field(4, ge=1)
    """Replies to a prompt."""
    updates_per_step: int = Field(1, ge=1)
    """A step's prompts are split into that many updates."""
    temperature: float = Field(1.0, gt=0)
    max_new_tokens: int | None = Field(None, ge=1)
    """Lowers the tasks' own limits."""
    mismatch_limit: float | None = Field(None, gt=0)
    """Of `opd`: as in stage `rl`."""
    learning_rate: float = Field(2e-4, gt=0)
    num_warmup: int = Field(2, ge=0)
    decay: Decay = "constant"
    checkpoint_every: int = Field(5, ge=1)

    @model_validator(mode="after")
    def _options_fit(self) -> Self:
        try:
            check_name(self.teacher)
        except ConfigError as error:
            raise ValueError(f"teacher: {error}") from None
        if self.updates_per_step > self.prompts_per_step:
            raise ValueError("updates_per_step is larger than prompts_per_step; each update needs a prompt")
        self._check_objective()
        if self.endpoint is not None:
            self._check_endpoint()
        return self

    def _check_objective(self) -> None:
        of_other = {"opd": ("beta", "student_share"), "gkd": ("ratio_max", "mismatch_limit")}[self.objective]
        for name in of_other:
            if name in self.model_fields_set:
                raise ValueError(f"objective {self.objective!r} does not read {name}; leave it out")
        if self.ratio_max is not None and self.updates_per_step == 1:
            raise ValueError(
                "ratio_max does nothing in the first update of a step, where the ratio is 1, and updates_per_step is "
                "1; raise that, or leave ratio_max out"
            )

    def _check_endpoint(self) -> None:
        if self.objective == "gkd":
            raise ValueError(
                "objective 'gkd' compares whole distributions, which an endpoint does not give; take objective 'opd', "
                "or leave endpoint out, so that the teacher is loaded here"
            )
        if self.temperature != 1:
            raise ValueError(
                f"an endpoint scores at temperature 1, and temperature is {self.temperature}; set it to 1, or leave "
                "endpoint out, so that the teacher is loaded here"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What was chosen before the loop."""

    collector: Collector
    backward: Backward
    takes_stored: Sequence[bool]
    """Of each step: whether it trains on stored replies, and samples none."""
    stored: Mixture | None
    """The tasks whose correct replies those are, where a step takes them."""


def run(session: Session, config: Config) -> dict[str, Any]:
    """Train towards the teacher; resumes after the last checkpoint, from the rollouts that are kept."""
    takes = takes_stored(config, session.train_seed)
    plan = _Plan(
        collector=_collector(session, config),
        backward=_backward(session, config),
        takes_stored=takes,
        stored=taught(session) if any(takes) else None,
    )
    session.policy.reset_optimiser(config.optimiser_config())
    first = training.resume(session)
    if first:
        session.ledger.commit_steps(session.position, first - 1)
    with progress_bar(session.console) as progress:
        bar = progress.add_task("distill", total=config.num_steps, completed=first, note="")
        for step in range(first, config.num_steps):
            distance = (_stored_step if plan.takes_stored[step] else _step)(session, config, plan, step)
            progress.update(bar, advance=1, note=f"to the teacher {distance:.3f}")
            if (step + 1) % config.checkpoint_every == 0 or step + 1 == config.num_steps:
                training.settle(session, step)
    return training.finish(session)


def takes_stored(config: Config, seed: int) -> list[bool]:
    """Draw which steps train on stored replies; a step's draw is its own, so that a resumed run draws alike."""
    share = 1.0 if config.student_share is None else config.student_share
    return [Random(derive(seed, "student", step)).random() >= share for step in range(config.num_steps)]


def _collector(session: Session, config: Config) -> Collector:
    return Collector(
        means=session.means,
        ledger=session.ledger,
        mixture=Mixture(session.sources, seed=session.train_seed, exclude=session.held_out_prompts()),
        stage=session.position,
        seed=session.train_seed,
        group_size=config.group_size,
        params=SamplingParams(temperature=config.temperature, max_new_tokens=config.max_new_tokens or NO_LIMIT),
        is_wanted=lambda group: True,
    )


def _backward(session: Session, config: Config) -> Backward:
    """Open the teacher, and say how rows are learned from."""
    max_pack_tokens = session.recipe.learner.max_pack_tokens
    if config.endpoint is not None:
        check_vocabulary(session.loaded.tokenizer, load_tokenizer(config.teacher), config.teacher)
        return _opd(session, config, EndpointTeacher(config.endpoint))
    loaded = load(config.teacher, dtype=session.recipe.model.dtype)
    check_vocabulary(session.loaded.tokenizer, loaded.tokenizer, config.teacher)
    teacher = ModelTeacher(loaded.model, temperature=config.temperature, max_pack_tokens=max_pack_tokens)
    if config.objective == "opd":
        return _opd(session, config, teacher)
    check_heads(session.loaded.model, loaded.model, config.teacher)
    divergence = partial(gkd.divergence, beta=0.5 if config.beta is None else config.beta)

    def backward(rows: Sequence[Row], is_first: bool) -> dict[str, float]:
        mean = divergence_backward(
            session.own_policy, loaded.model, rows, divergence, temperature=config.temperature,
            max_pack_tokens=max_pack_tokens,
        )  # fmt: skip
        return {"loss": mean, "divergence": mean}

    return backward


def _opd(session: Session, config: Config, teacher: Teacher) -> Backward:
    options = {} if config.ratio_max is None else {"ratio_max": config.ratio_max}
    choice, mismatch = load_objective("opd", options), Mismatch()
    loss = compose(choice, multipliers=None, kl_kind="k2", kl_coefficient=0.0, mismatch=mismatch)
    limit = config.mismatch_limit or MISMATCH_LIMIT[session.loaded.dtype]

    def backward(rows: Sequence[Row], is_first: bool) -> dict[str, float]:
        batch = Batch(
            rows=rows,
            aggregate=choice.aggregation,
            max_length=1,
            temperature=config.temperature,
            # the sampler's own: the policy moves between the updates of a step
            old_logprobs=None if is_first else [sampled_logprobs(row) for row in rows],
            ref_logprobs=teacher.logprobs(rows),
        )
        metrics = session.policy.forward_backward(batch, loss)
        if is_first:
            invariants.check_mismatch(metrics["mismatch"], limit)
        return metrics | dict(mismatch.take())

    return backward


def _step(session: Session, config: Config, plan: _Plan, step: int) -> float:
    """One step; returns how far the student is from the teacher."""
    started = time.monotonic()
    first_draw = session.ledger.num_groups_before(session.position, step)
    num_prompts = config.prompts_per_step
    rollouts = plan.collector.collect(step, first_draw, num_prompts=num_prompts, max_draws=num_prompts)
    sampled = time.monotonic()
    session.note_flight(step, rollouts.members)
    trained = _train(session, config, plan, step, rollouts.kept)
    timing = {"sample_and_judge_s": sampled - started, "train_s": time.monotonic() - sampled}
    metrics = step_metrics(rollouts) | trained | timing
    session.metrics.log(step, session.stage_name, **metrics, **session.means.verify_metrics())
    session.heartbeat()
    return trained["divergence" if config.objective == "gkd" else "reverse_kl"]


def _stored_step(session: Session, config: Config, plan: _Plan, step: int) -> float:
    """One step on stored replies; returns how far the student is from the teacher on them."""
    started = time.monotonic()
    assert plan.stored, "the step takes stored replies"
    first = step * config.prompts_per_step
    rows = shown(session, plan.stored, range(first, first + config.prompts_per_step))
    trained = _learn(session, config, plan, step, [[row] for row in rows])
    if rows:  # tasks of a source may lack a correct reply
        trained["divergence_stored"] = trained.pop("divergence")
    session.metrics.log(step, session.stage_name, **trained, train_s=time.monotonic() - started)
    session.heartbeat()
    return trained.get("divergence_stored", 0.0)


def _train(session: Session, config: Config, plan: _Plan, step: int, groups: Sequence[Group]) -> dict[str, float]:
    invariants.check_groups(
        groups, version=session.policy.version, max_staleness=0, stop_ids=session.means.chat.stop_ids, num_needed=0
    )
    return _learn(session, config, plan, step, [_rows(group) for group in groups])


def _learn(
    session: Session, config: Config, plan: _Plan, step: int, rows_P: Sequence[Sequence[Row]]
) -> dict[str, float]:
    rate = config.rate(step, config.num_steps)
    parts = [rows for rows in _split(rows_P, config.updates_per_step) if rows]
    if not parts:
        return {"tokens_trained": 0}
    sums: Counter[str] = Counter()
    for number, rows in enumerate(parts):
        sums.update(plan.backward(rows, number == 0) | {"grad_norm": session.policy.optim_step(rate)})
    means = {name: value / len(parts) for name, value in sums.items()}
    return means | {"learning_rate": rate, "tokens_trained": sum(row.num_trained for rows in parts for row in rows)}


def _rows(group: Group) -> list[Row]:
    """All replies train: what the teacher says of them needs no verdict."""
    return [Row(token_ids=m.token_ids, was_sampled=m.was_sampled, rollout_logprobs=m.logprobs) for m in group.members]


def _split(rows_P: Sequence[Sequence[Row]], num_parts: int) -> list[list[Row]]:
    bounds = [round(len(rows_P) * part / num_parts) for part in range(num_parts + 1)]
    return [[row for rows in rows_P[low:high] for row in rows] for low, high in pairwise(bounds)]
