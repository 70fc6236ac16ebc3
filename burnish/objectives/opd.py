"""On-policy distillation: the student samples, a teacher scores each token, and the log-ratio is its advantage.

The gradient of KL(student || teacher) a token, from the sampled token alone, with discount 0: MiniLLM,
https://arxiv.org/abs/2306.08543, its single-step term; On-Policy Distillation, Lu and Thinking Machines
2025, https://thinkingmachines.ai/blog/on-policy-distillation/. The teacher's log-probabilities of the student's
tokens are `ref_logprobs_T`. Ours: the importance ratio is truncated (`ratio_max`), in prime-rl's `ref_kl` it is not,
which drops tokens by another rule. Rewards are not read; a batch may add them as another term.
Aggregation: `token_mean`. Not covered: the divergence over the whole vocabulary (`gkd`).
"""

from dataclasses import dataclass

from burnish.objectives import Loss, Streams, kl, ops, ranges
from burnish.objectives.aggregation import Kind

AGGREGATION: Kind = "token_mean"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The bound on the ratio is that of truncated importance sampling."""

    ratio_max: float = 2.0

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing."""
        ranges.check(self, ratio_max=ranges.AT_LEAST_1)


def loss(s: Streams, config: Config) -> Loss:
    """Policy gradient on the teacher's log-probability less the student's, summed over tokens."""
    teacher_logprobs_T = ops.required(s.ref_logprobs_T, "ref_logprobs_T")
    old_logprobs_T = ops.behaviour_logprobs(s, of_sampler=False)
    ratio_T = ops.importance_ratio(s.new_logprobs_T, old_logprobs_T).clamp(max=config.ratio_max)
    reverse_kl_T = kl.k1(s.new_logprobs_T, teacher_logprobs_T)
    policy = ops.policy_gradient(s, -ratio_T * reverse_kl_T)
    measured = {"reverse_kl": ops.metric(reverse_kl_T, s), "ratio": ops.metric(ratio_T, s)}
    return Loss(total=policy.total, metrics={**policy.metrics, **measured})
