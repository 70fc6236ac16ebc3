"""Distance to a reference policy, estimated from the sampled tokens alone.

The estimators are Schulman's, http://joschu.net/blog/kl-approx.html; k3 is eq. 4 of GRPO,
https://arxiv.org/abs/2402.03300. With x drawn from the policy itself, k1 and k3 estimate KL(policy || ref)
without bias, k2 to second order. As a *loss* (differentiated through the log-probability alone) it is
otherwise: k2 has the true gradient of KL(policy || ref), k3 has that of KL(ref || policy), and k1 has none
in expectation, https://arxiv.org/abs/2506.09477. So k1 belongs in the reward (`in_reward`), and `penalty` refuses it.
Not covered: importance weights for tokens that an older policy drew; full-vocabulary KL.
"""

from typing import Literal

import torch
from torch import Tensor

from burnish.objectives import Loss, Streams, ops

PenaltyKind = Literal["k2", "k3"]


def k1(new_logprobs_T: Tensor, ref_logprobs_T: Tensor) -> Tensor:
    """The log-ratio: unbiased, often negative, noisy. For rewards and measurement."""
    return new_logprobs_T - ref_logprobs_T


def k2(new_logprobs_T: Tensor, ref_logprobs_T: Tensor) -> Tensor:
    """Half the squared log-ratio: biased in value, exact in gradient. For losses."""
    return (new_logprobs_T - ref_logprobs_T).square() / 2


def k3(new_logprobs_T: Tensor, ref_logprobs_T: Tensor) -> Tensor:
    """The log-ratio with a control variate: unbiased, never negative. For measurement, and GRPO's loss."""
    surplus_T = ref_logprobs_T - new_logprobs_T
    return torch.expm1(surplus_T.clamp(max=ops.LOG_RATIO_LIMIT)) - surplus_T


def in_reward(logprobs_T: Tensor, ref_logprobs_T: Tensor) -> Tensor:
    """KL of one reply, to be subtracted from its reward times a coefficient: k1 summed over its tokens, a constant.

    RLOO, https://arxiv.org/abs/2402.14740, and InstructGPT, https://arxiv.org/abs/2203.02155, eq. 2. Its expectation
    is the KL of whole replies, and its policy gradient that KL's gradient, effects on later tokens included.
    """
    return k1(logprobs_T, ref_logprobs_T).detach().sum()


def penalty(s: Streams, kind: PenaltyKind, coefficient: float) -> Loss:
    """The term to add to any loss (`ops.add`) that keeps the policy near the reference.

    The metric `kl_ref` is k3, whatever is trained: 0 where both agree.
    """
    ref_logprobs_T = ops.required(s.ref_logprobs_T, "ref_logprobs_T")
    match kind:
        case "k2":
            penalty_T = k2(s.new_logprobs_T, ref_logprobs_T)
        case "k3":
            penalty_T = k3(s.new_logprobs_T, ref_logprobs_T)
        case _:
            raise ValueError(
                f"no KL penalty {kind!r}; there are 'k2' and 'k3' (k1 has no gradient in expectation: "
                "subtract coefficient * k1 from the rewards instead)"
            )
    return Loss(
        total=coefficient * (penalty_T * s.weights_T).sum(),
        metrics={"kl_ref": ops.metric(k3(s.new_logprobs_T, ref_logprobs_T), s)},
    )
