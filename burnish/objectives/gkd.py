"""GKD: the generalised Jensen-Shannon divergence between a student's and a teacher's distributions.

On-Policy Distillation of Language Models, https://arxiv.org/abs/2306.13649, eq. 1: with M = beta T + (1 - beta) S, the
divergence is beta KL(T || M) + (1 - beta) KL(S || M). Its limits are named, since the formula itself is 0 there:
`beta = 0` is KL(T || S) and `beta = 1` is KL(S || T), as in TRL's `generalized_jsd_loss`. The share of
prompts that the student answers itself (lambda of the paper) is `student_share` of stage `distill`.
Covered: log-probabilities over one vocabulary, also a cut one that was normalised again. Not covered: two vocabularies.
"""

import math

import torch
from torch import Tensor


def divergence(student_logprobs_N_V: Tensor, teacher_logprobs_N_V: Tensor, *, beta: float = 0.5) -> Tensor:
    """The divergence of each of N positions; the teacher carries no gradient."""
    if not 0 <= beta <= 1:
        raise ValueError(f"beta lies in [0, 1]: 0 is KL(teacher || student), 1 is KL(student || teacher); got {beta}")
    teacher_logprobs_N_V = teacher_logprobs_N_V.detach()
    if beta == 0:
        return _kl(teacher_logprobs_N_V, student_logprobs_N_V)
    if beta == 1:
        return _kl(student_logprobs_N_V, teacher_logprobs_N_V)
    mixture_N_V = torch.logaddexp(teacher_logprobs_N_V + math.log(beta), student_logprobs_N_V + math.log1p(-beta))
    of_teacher_N = _kl(teacher_logprobs_N_V, mixture_N_V)
    return beta * of_teacher_N + (1 - beta) * _kl(student_logprobs_N_V, mixture_N_V)


def _kl(p_logprobs_N_V: Tensor, q_logprobs_N_V: Tensor) -> Tensor:
    """What has no probability under p adds nothing."""
    differences_N_V = torch.where(p_logprobs_N_V.isneginf(), 0.0, p_logprobs_N_V - q_logprobs_N_V)
    return (p_logprobs_N_V.exp() * differences_N_V).sum(-1)
