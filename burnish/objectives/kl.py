"""Distance to a reference policy, estimated from the sampled tokens alone.

The estimators are Schulman's, http://joschu.net/blog/kl-approx.html; k3 is eq. 4 of GRPO,
https://arxiv.org/abs/2402.03300. With x drawn from the policy itself, k1 and k3 estimate KL(policy || ref)
without bias, k2 to second order. As a *loss* (differentiated through the log-probability alone) it is
otherwise: k2 has the true gradient of KL(policy || ref), k3 has that of KL(ref || policy), and k1 has none
in expectation, https://arxiv.org/abs/2506.09477. So k1 belongs in the reward (`in_reward`), and `penalty` refuses it.
`top_k` is no estimate from the sampled token: it compares the distributions over the reference's k likeliest tokens
and "any other", so value and gradient have no noise; it is at most the KL of the whole distributions (data processing
inequality), and equal to it where k is the vocabulary. All but `k1` in the reward are of each state that was visited,
and know nothing of a token's effect on later ones.
Not covered: importance weights for tokens that an older policy drew.
"""

from typing import Literal

import torch
from torch import Tensor

from burnish.objectives import Loss, Streams, ops

PenaltyKind = Literal["k2", "k3", "top_k"]


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


def top_k(logprobs_T_K: Tensor, ref_logprobs_T_K: Tensor) -> Tensor:
    """KL(policy || reference) of the distributions over k tokens and all others as one."""
    rest_T, ref_rest_T = _log_of_rest(logprobs_T_K), _log_of_rest(ref_logprobs_T_K)
    of_tokens_T = (logprobs_T_K.exp() * (logprobs_T_K - ref_logprobs_T_K)).sum(-1)
    return of_tokens_T + rest_T.exp() * (rest_T - ref_rest_T)


def _log_of_rest(logprobs_T_K: Tensor) -> Tensor:
    """Log of what the k tokens leave; rounding may leave nothing, or less."""
    held_T = logprobs_T_K.exp().sum(-1).clamp(max=1 - torch.finfo(logprobs_T_K.dtype).eps)
    return torch.log1p(-held_T)


def in_reward(logprobs_T: Tensor, ref_logprobs_T: Tensor) -> Tensor:
    """KL of one reply, to be subtracted from its reward times a coefficient: k1 summed over its tokens, a constant.

    RLOO, https://arxiv.org/abs/2402.14740, and InstructGPT, https://arxiv.org/abs/2203.02155, eq. 2. Its expectation
    is the KL of whole replies, and its policy gradient that KL's gradient, effects on later tokens included.
    """
    return k1(logprobs_T, ref_logprobs_T).detach().sum()


def penalty(s: Streams, kind: PenaltyKind, coefficient: float) -> Loss:
    """The term to add to any loss (`ops.add`) that keeps the policy near the reference.

    The metric `kl_ref` is k3, whatever is trained: 0 where both agree; `kl_top_k` is there where it trains.
    """
    ref_logprobs_T = ops.required(s.ref_logprobs_T, "ref_logprobs_T")
    match kind:
        case "k2":
            penalty_T = k2(s.new_logprobs_T, ref_logprobs_T)
        case "k3":
            penalty_T = k3(s.new_logprobs_T, ref_logprobs_T)
        case "top_k":
            ours_T_K = ops.required(s.top_logprobs_T_K, "top_logprobs_T_K")
            penalty_T = top_k(ours_T_K, ops.required(s.ref_top_logprobs_T_K, "ref_top_logprobs_T_K"))
        case _:
            raise ValueError(
                f"no KL penalty {kind!r}; there are 'k2', 'k3' and 'top_k' (k1 has no gradient in expectation: "
                "subtract coefficient * k1 from the rewards instead)"
            )
    measured = {"kl_ref": ops.metric(k3(s.new_logprobs_T, ref_logprobs_T), s)}
    if kind == "top_k":
        measured["kl_top_k"] = ops.metric(penalty_T, s)
    return Loss(total=coefficient * (penalty_T * s.weights_T).sum(), metrics=measured)
