"""CISPO: the ratio is clipped as a weight, so that every token keeps its gradient.

MiniMax-M1, https://arxiv.org/abs/2506.13585, eq. 4 and 5. The clipped ratio is a constant factor on the
policy gradient; PPO's clip would silence the rare tokens on which reasoning turns. The paper has no lower
bound and states no upper one; 5 is from ScaleRL, https://arxiv.org/abs/2510.13786, as TRL gives it.
Systems differ by the name: see the dialects. ScaleRL's takes the ratio to the sampler itself (so nothing else may
correct for it), divides by the spread over the step, and averages over prompts.
Aggregation: `token_mean`.
"""

from dataclasses import dataclass

from torch import Tensor

from burnish.objectives import Loss, Streams, ops, ranges
from burnish.objectives.aggregation import Kind
from burnish.objectives.dialects import Dialect
from burnish.objectives.step import Step, over_spread, per_prompt

AGGREGATION: Kind = "token_mean"
NEEDS_OPTION = {"epsilon": ("divide_by_std", "divide_by_step_std")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Bounds on the ratio itself, not on its distance to 1."""

    ratio_min: float = 0.0
    ratio_max: float = 5.0
    epsilon: float = 1e-6
    divide_by_std: bool = True
    divide_by_step_std: bool = False
    prompt_mean: bool = False
    ratio_to_sampler: bool = False

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing."""
        ranges.check(self, ratio_min=ranges.SHARE, ratio_max=ranges.AT_LEAST_1, epsilon=ranges.ABOVE_0)


DIALECTS = {
    "scalerl": Dialect(
        config=Config(divide_by_std=False, divide_by_step_std=True, prompt_mean=True, ratio_to_sampler=True),
        source="ScaleRL, https://arxiv.org/abs/2510.13786",
    ),
    "trl": Dialect(config=Config(epsilon=1e-4), source="TRL 1.16, grpo_trainer.py, loss_type='cispo', epsilon_high=5"),
    "verl": Dialect(
        config=Config(ratio_min=0.8, ratio_max=1.2),
        source="verl of 2026-08, core_algos.compute_policy_loss_cispo with the bounds of actor.yaml",
    ),
}


def advantages(rewards_G: Tensor, config: Config) -> Tensor:
    """One advantage a reply: its reward against its siblings', in units of their spread."""
    return ops.center(rewards_G, divide_by_std=config.divide_by_std, epsilon=config.epsilon)


def over_step(step: Step, config: Config) -> Tensor:
    """Divide by the spread over the step, and weigh prompts alike, if asked to."""
    if config.divide_by_step_std:
        step = step._replace(advantages_B=over_spread(step, config.epsilon))
    return per_prompt(step) if config.prompt_mean else step.advantages_B


def loss(s: Streams, config: Config) -> Loss:
    """Negative log-likelihood times advantage times clipped ratio, summed over tokens."""
    ratio_T = ops.importance_ratio(s.new_logprobs_T, ops.behaviour_logprobs(s, of_sampler=config.ratio_to_sampler))
    clipped_T = ratio_T.clamp(config.ratio_min, config.ratio_max)
    policy = ops.policy_gradient(s, clipped_T * ops.required(s.advantages_T, "advantages_T"))
    was_clipped_T = (ratio_T != clipped_T).to(ratio_T.dtype)
    measured = {"clip_fraction": ops.metric(was_clipped_T, s), "ratio": ops.metric(ratio_T, s)}
    return Loss(total=policy.total, metrics={**policy.metrics, **measured})
