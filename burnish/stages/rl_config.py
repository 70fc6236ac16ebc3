"""Options of stage `rl`, and which of them contradict each other."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, JsonValue, model_validator

from burnish.core.config import validate
from burnish.core.errors import ConfigError
from burnish.learner.schedule import Decay
from burnish.objectives import aggregation as weighing
from burnish.objectives.dialects import Choice
from burnish.objectives.kl import PenaltyKind
from burnish.rollout.aim import AimConfig
from burnish.rollout.corrections import CorrectionsConfig
from burnish.rollout.course import MixtureConfig
from burnish.rollout.scheduler_config import SchedulerConfig
from burnish.stages.guard_config import GuardConfig
from burnish.stages.rl_critic import CriticConfig
from burnish.stages.rl_history_config import ReplayConfig, history_fault, replay_fault
from burnish.stages.rl_loss import (
    RATIO_OPTIONS,
    Correction,
    compares_groups,
    is_linear,
    is_on_policy,
    load_rollout_objective,
    multipliers_of,
    needs_values,
    reads_sampler,
)
from burnish.stages.updates import Updates


class Config(Updates):
    """Options of the stage."""

    num_steps: int = Field(ge=1)
    prompts_per_step: int = Field(8, ge=1)
    group_size: int = Field(8, ge=1)
    """Replies to a prompt; 1 is enough where they are not compared (`ppo`, `reinforce`, `reinforce_pp`)."""
    updates_per_step: int = Field(1, ge=1)
    """A step's groups are split into that many updates; from the second on, the ratio moves and clips."""
    max_draws_factor: float = Field(2.0, ge=1)
    credit: Literal["trajectory", "turn"] = "trajectory"
    """Of episodes: one advantage for all turns, or each turn's by the reward that was still to come."""
    temperature: float = Field(1.0, gt=0)
    max_new_tokens: int | None = Field(None, ge=1)
    """Lowers the tasks' own limits."""
    objective: str = "dapo"
    """DAPO is GRPO with a mean over tokens, clip-higher and refill of groups without signal. `NAME@DIALECT` is the
    form that another system gives to it, for example `cispo@scalerl`."""
    objective_options: dict[str, JsonValue] = {}
    critic: CriticConfig | None = None
    """The value model of `ppo`; None is its defaults."""
    aggregation: weighing.Kind | None = None
    """How token losses become one number; None is the objective's own (its paper's)."""
    correction: Correction | None = None
    """For a sampler that is not quite the learner; None is "tis", or "none" for objectives that see the sampler."""
    correction_options: dict[str, float] = {}
    max_staleness: int = Field(0, ge=0)
    """How many steps a trained token may lag behind the weights that it trains; 0 is synchronous."""
    in_flight: Literal["continue", "finish"] = "continue"
    """At an update, samples under way go on with the new weights, or the update waits until they have ended."""
    scheduler: dict[str, JsonValue] = {}
    """What begins when, retries, over-sampling, budgets (docs/scheduling.md); read with `max_staleness` above 0."""
    mixture: MixtureConfig = MixtureConfig()
    """How much of the training each domain gets, and how that changes (docs/staged_training.md)."""
    corrections: CorrectionsConfig | None = None
    """Tasks of a kind that fails more often than others of its domain are drawn more often; None: they are not."""
    guard: GuardConfig | None = None
    """Suites that must not get worse: every few steps the newest weights are promoted, held or rolled back."""
    carry_moments: bool = False
    """Normaliser `running` goes on from the moments that the stage `rl` before left, where it left any."""
    max_interactions: int | None = Field(None, ge=1)
    """The stage ends before it would take more: turns that an environment answered, or replies that were judged."""
    histories: str | None = None
    """Stored replies that `aim` begins with and `replay` replays: a Parquet file that stage `rl` wrote, a folder of
    them, or a run's folder; "" is what this run's earlier stages have left."""
    aim: AimConfig | None = None
    """Tasks of which little is known, or that are risky, are drawn more often; None: all alike."""
    replay: ReplayConfig | None = None
    """A share of each update is of stored replies; None: all is fresh."""
    mismatch_limit: float | None = Field(None, gt=0)
    """How far sampler and learner may be apart, in nats a token on average, before the run stops; None is 0.001 in
    float32 and 0.15 in bfloat16."""
    overlong_filter: bool = False
    """Replies that were cut off stay out of the loss."""
    overlong_cache: int = Field(0, ge=0)
    """From so many tokens before `max_new_tokens` on, replies lose reward; 0 is no penalty."""
    kl_in: Literal["loss", "reward"] = "loss"
    """In the reward it is k1: one number a reply, but for `reinforce_pp` each token's, to the end of the reply."""
    kl_kind: PenaltyKind = "k2"
    """`top_k` compares the reference's likeliest tokens at each place, and not the sampled one alone."""
    kl_top_k: int | None = Field(None, ge=1)
    """Of `top_k`: how many tokens; None is 16."""
    kl_coefficient: float = Field(0.0, ge=0)
    """Pull towards the policy that the stage began with."""
    entropy_bonus: float = Field(0.0, ge=0)
    """Weight in the loss of the entropy of each trained token's distribution, which it raises; 0 is none."""
    entropy_floor: float = Field(0.0, ge=0)
    """The run stops where the policy's entropy, in nats a token, is below it; 0 never stops."""
    learning_rate: float = Field(2e-4, gt=0)
    num_warmup: int = Field(2, ge=0)
    decay: Decay = "constant"
    checkpoint_every: int = Field(5, ge=1)

    @model_validator(mode="after")
    def _options_fit(self) -> Self:
        if self.updates_per_step > self.prompts_per_step:
            raise ValueError("updates_per_step is larger than prompts_per_step; each update needs a group")
        try:
            choice = load_rollout_objective(self.objective, self.objective_options)
            multipliers_of(self.used_correction(choice), self.correction_options)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        self._check_conflicts(choice)
        if self.credit == "turn" and (not compares_groups(choice) or hasattr(choice.module, "KL_TO_THE_END")):
            raise ValueError(
                f"credit = 'turn' compares the turns of siblings, and objective {self.objective!r} has advantages by "
                "token of its own; take 'grpo' or 'dapo', or leave credit out"
            )
        self._check_asynchrony(choice)
        self._check_histories(choice)
        if needs_values(choice):
            self._check_values()
        elif self.critic is not None:
            raise ValueError(f"objective {self.objective!r} has no value model; leave critic out, or take 'ppo'")
        self._check_groups(choice)
        return self

    def _check_conflicts(self, choice: Choice) -> None:
        if (self.aggregation or choice.aggregation) == "sum_over_max_length" and self.max_new_tokens is None:
            raise ValueError("aggregation 'sum_over_max_length' divides by max_new_tokens; set it")
        if self.aggregation == "pair_mean":
            raise ValueError("aggregation 'pair_mean' is of pairs; choose for example 'token_mean'")
        if self.overlong_cache and (self.max_new_tokens is None or self.overlong_cache > self.max_new_tokens):
            raise ValueError(
                f"overlong_cache ({self.overlong_cache}) counts back from max_new_tokens ({self.max_new_tokens}); "
                "set max_new_tokens, and no smaller than it"
            )
        if not is_linear(choice) and self.used_correction(choice) != "none":
            raise ValueError(
                f"objective {self.objective!r} is not linear in its advantages, which correction {self.correction!r} "
                "would multiply; leave correction out"
            )
        if reads_sampler(choice) and self.used_correction(choice) != "none":
            raise ValueError(
                f"objective {self.objective!r} takes its ratio to the sampler itself, so correction "
                f"{self.correction!r} would count it twice; leave correction out"
            )
        if getattr(choice.config, "prompt_mean", False) and self.aggregation not in (None, "token_mean"):
            raise ValueError(
                f"objective {self.objective!r} averages over prompts, which weighs tokens for 'token_mean'; leave out "
                f"aggregation {self.aggregation!r}, or set objective_options.prompt_mean to false"
            )
        if hasattr(choice.module, "DIVIDES_BY_MEAN") and (self.overlong_cache or self.kl_in == "reward"):
            raise ValueError(
                f"objective {self.objective!r} divides by the mean reward of a group, which {self._penalty()} could "
                "bring near 0; leave that out, or take an objective that divides by the spread, for example 'grpo'"
            )
        bounds = sorted(RATIO_OPTIONS & self.objective_options.keys())
        if bounds and self.updates_per_step == 1 and not reads_sampler(choice):
            raise ValueError(
                f"objective_options: {' and '.join(bounds)} would do nothing in the first update of a step, where the "
                "ratio is 1, and updates_per_step is 1; raise that, or leave the bounds out"
            )
        if is_on_policy(choice) and self.updates_per_step > 1:
            raise ValueError(
                f"objective {self.objective!r} has no ratio, so that from the second update of a step on its replies "
                "would be of other weights; set updates_per_step to 1, or take 'reinforce_pp' or 'grpo', which have one"
            )
        unread = sorted({"kl_in", "kl_kind"} & self.model_fields_set)
        if unread and not self.kl_coefficient:
            raise ValueError(f"{' and '.join(unread)} without kl_coefficient does nothing; set that above 0")
        if self.kl_top_k is not None and self.kl_kind != "top_k":
            raise ValueError(f"kl_top_k is of kl_kind 'top_k', and kl_kind is {self.kl_kind!r}; leave kl_top_k out")
        if self.kl_in == "reward" and "kl_kind" in self.model_fields_set:
            raise ValueError("kl_in 'reward' is always k1; leave kl_kind out, or set kl_in to 'loss'")

    def _penalty(self) -> str:
        return "overlong_cache" if self.overlong_cache else "kl_in 'reward'"

    def _check_groups(self, choice: Choice) -> None:
        if compares_groups(choice) and self.group_size < 2:
            raise ValueError(
                f"objective {self.objective!r} compares the replies to a prompt; set group_size to at least 2, or take "
                "objective 'reinforce_pp', or 'ppo', which has a value model"
            )
        if not compares_groups(choice) and "max_draws_factor" in self.model_fields_set:
            raise ValueError(
                f"objective {self.objective!r} compares no group, so groups that scored alike train and are not drawn "
                "again; leave max_draws_factor out"
            )

    def _check_values(self) -> None:
        if "value_coefficient" in self.objective_options:
            raise ValueError(
                "objective_options: the value model has weights and a rate of its own, which value_coefficient would "
                "not change; set critic.learning_rate"
            )
        num_value_updates = self.updates_per_step * self.value_model.num_passes
        if "value_clip" in self.objective_options and num_value_updates == 1:
            raise ValueError(
                "objective_options: value_clip does nothing in the first update of a step, and there is one; raise "
                "updates_per_step or critic.num_passes, or leave value_clip out"
            )
        if self.value_model.num_warmup_steps >= self.num_steps:
            raise ValueError(
                f"critic.num_warmup_steps ({self.value_model.num_warmup_steps}) leaves the policy no step of "
                f"num_steps ({self.num_steps}); lower it"
            )

    def _check_histories(self, choice: Choice) -> None:
        fault = history_fault(
            histories=self.histories, aim=self.aim, replay=self.replay, max_interactions=self.max_interactions,
            group_size=self.group_size, max_staleness=self.max_staleness,
        )  # fmt: skip
        if fault or (fault := replay_fault(self.objective, choice) if self.replay else ""):
            raise ValueError(fault)
        if self.histories and not Path(self.histories).exists():
            raise ValueError(
                f'histories: no file or folder {self.histories!r} in {str(Path.cwd())!r}; "" is what this run\'s '
                "earlier stages have left"
            )

    def _check_asynchrony(self, choice: Choice) -> None:
        if not self.max_staleness:
            unread = sorted({"in_flight", "scheduler"} & self.model_fields_set)
            if unread:
                raise ValueError(
                    f"{' and '.join(unread)} without max_staleness does nothing, because no sample is under way at an "
                    "update; set max_staleness above 0, or leave that out"
                )
            return
        if is_on_policy(choice):
            raise ValueError(
                f"objective {self.objective!r} has no ratio, so its replies must be of the weights that train; set "
                "max_staleness to 0, or take 'reinforce_pp' or 'grpo', which have one"
            )
        try:
            self.scheduler_config()
        except ConfigError as error:
            raise ValueError(str(error)) from None

    def scheduler_config(self) -> SchedulerConfig:
        """The options of the scheduler, the stage's own among them."""
        compares = compares_groups(load_rollout_objective(self.objective, self.objective_options))
        own = {
            "batch_groups": self.prompts_per_step, "group_size": self.group_size, "num_batches": self.num_steps,
            "max_staleness": self.max_staleness, "on_weights": self.in_flight, "needs_signal": compares,
            "max_draws_factor": self.max_draws_factor if compares else 1.0, "groups": {},
        }  # fmt: skip
        if taken := sorted(own.keys() & self.scheduler.keys()):
            raise ConfigError(f"scheduler: {', '.join(taken)} follow from the stage's own options; leave them out")
        defaults = {"batch_order": "due", "lookahead": self.prompts_per_step}
        return validate(SchedulerConfig, {**defaults, **self.scheduler, **own}, "scheduler of stage 'rl'")

    @property
    def masks_overdue(self) -> bool:
        """Whether tokens that are too old stay out of the loss, and no reply is waited for or let go for its age."""
        return self.scheduler.get("overdue") == "mask"

    @property
    def value_model(self) -> CriticConfig:
        """The options of the value model, where there is one."""
        return self.critic or CriticConfig()

    def value_rate(self, step: int) -> float:
        """The learning rate of the value model at a step."""
        peak = self.value_model.learning_rate or self.learning_rate
        return self.rate(step, self.num_steps) * peak / self.learning_rate

    def used_correction(self, choice: Choice) -> Correction:
        """The correction, where the recipe leaves it to the objective."""
        return self.correction or ("none" if reads_sampler(choice) or not is_linear(choice) else "tis")
