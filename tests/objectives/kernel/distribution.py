"""Terms that see whole distributions, and the head that gives them in one pass: entropy bonus, KL to k tokens.

The policy has probabilities 1/2, 1/4, 1/8, 1/8 at the temperature 1/2, so that its entropy is 7/4 ln 2. The reference
says 1/8 and 1/2 of the first two tokens, and leaves 3/8 to all others.
"""

import math
import sys
from collections.abc import Callable
from functools import wraps

import torch
from torch import Tensor

from burnish.models.fused_head import Head, HeadStats, head_stats, top_tokens
from burnish.objectives import Streams, entropy, kl
from tests.objectives.kernel.batch import close, double

LN2, LN3 = math.log(2), math.log(3)
P = double([0.5, 0.25, 0.125, 0.125])
ENTROPY = 1.75 * LN2
OF_ENTROPY = double([-0.375, 0.0625, 0.15625, 0.15625]) * LN2  # -p (log p + entropy)
REF_TOP = double([0.125, 0.5]).log()
KL_TOP = LN2 - 0.25 * LN3  # 1/2 ln 4 - 1/4 ln 2 + 1/4 ln 2/3
GAPS = double([2 * LN2, -LN2, LN2 - LN3, LN2 - LN3])  # log p / ref, of all others as one
OF_KL_TOP = P * (GAPS - KL_TOP)
TEMPERATURE, CAP = 0.5, 4.0
LOGITS = (P.log() + 0.75) * TEMPERATURE
SECOND_V = double([1.0, 2.0, 4.0, 7.0])


def head(*, cap: float | None = None, trains: bool = False) -> Head:
    """Its products with (1, 0) are the logits wanted; the second column shows where gradients of logits went."""
    first_V = LOGITS if cap is None else cap * torch.atanh(LOGITS / cap)
    return Head(torch.stack([first_V, SECOND_V], -1).float().requires_grad_(trains), None, cap, TEMPERATURE)


def stats_of(used: Head, ids: list[list[int]]) -> tuple[HeadStats, Tensor]:
    """More places than a chunk has, all alike but for the ids."""
    hidden_N_D = torch.tensor([[1.0, 0.0]]).repeat(len(ids), 1).requires_grad_(True)
    return head_stats(used, hidden_N_D, torch.tensor(ids)), hidden_N_D


IDS = [[0, 1], [3, 2]] * 75


def both_ways(check: Callable[[], None]) -> Callable[[], None]:
    """By what is compiled for rows, where something is, and by torch."""

    @wraps(check)
    def checked() -> None:
        check()
        module = sys.modules[Head.__module__]  # it may be a mutant
        compiled, module.rows_for = module.rows_for, lambda _: None
        try:
            check()
        finally:
            module.rows_for = compiled

    return checked


def pulled(dlogits_V: Tensor, cap: float | None = None) -> Tensor:
    """The gradient of the hidden state, by hand from that of logits over the temperature."""
    slopes_V = torch.ones(4).double() if cap is None else 1 - (LOGITS / cap).square()
    return (dlogits_V / TEMPERATURE * slopes_V) @ head(cap=cap).weight_V_D.detach().double()


@both_ways
def check_the_head_says_entropies_and_log_probabilities():
    for cap in (None, CAP):
        stats, _ = stats_of(head(cap=cap), IDS)
        assert close(stats.entropies_N, [ENTROPY] * 150), cap
        assert close(stats.logprobs_N_K, [[-LN2, -2 * LN2], [-3 * LN2, -3 * LN2]] * 75), cap


@both_ways
def check_the_gradient_of_entropies_through_the_head():
    for cap in (None, CAP):
        for trains in (False, True):
            used = head(cap=cap, trains=trains)
            stats, hidden_N_D = stats_of(used, IDS)
            (stats.entropies_N * torch.arange(150)).sum().backward()
            assert close(hidden_N_D.grad[149] / 149, pulled(OF_ENTROPY, cap)), (cap, trains)
            if trains and cap is None:
                assert close(used.weight_V_D.grad[:, 0] / 11175, OF_ENTROPY / TEMPERATURE)


@both_ways
def check_the_gradient_of_log_probabilities_through_the_head():
    """Of 3 log p_0 - log p_1: 3 at the first token, -1 at the second, less 2 p."""
    of_logits = double([3.0, -1.0, 0.0, 0.0]) - 2 * P
    for cap in (None, CAP):
        for trains in (False, True):
            used = head(cap=cap, trains=trains)
            stats, hidden_N_D = stats_of(used, [[0, 1]] * 150)
            (stats.logprobs_N_K @ torch.tensor([3.0, -1.0])).sum().backward()
            assert close(hidden_N_D.grad[149], pulled(of_logits, cap)), (cap, trains)
            if trains and cap is None:
                assert close(used.weight_V_D.grad[:, 0] / 150, of_logits / TEMPERATURE)


@both_ways
def check_entropies_and_log_probabilities_are_differentiated_together():
    for trains in (False, True):
        stats, hidden_N_D = stats_of(head(trains=trains), [[0, 1]])
        (stats.logprobs_N_K[0, 0] + 2 * stats.entropies_N[0]).backward()
        of_logits = double([1.0, 0.0, 0.0, 0.0]) - P + 2 * OF_ENTROPY
        assert close(hidden_N_D.grad[0], pulled(of_logits)), trains


def check_the_likeliest_tokens_of_a_head():
    top = top_tokens(head(), torch.tensor([[1.0, 0.0]]).repeat(150, 1), 2)
    assert close(top.ids_N_K, [[0, 1]] * 150)
    assert close(top.logprobs_N_K, [[-LN2, -2 * LN2]] * 150)


def streams(entropies_T: Tensor | None = None, top_T_K: Tensor | None = None) -> Streams:
    """Two tokens of unequal weights; the reference gives the first half of the policy's probability."""
    new_logprobs_T = double([-1.0, -2.0])
    return Streams(
        new_logprobs_T=new_logprobs_T, weights_T=double([0.5, 2.0]), sequence_T=torch.tensor([0, 1]),
        ref_logprobs_T=new_logprobs_T - double([LN2, 0.0]), entropies_T=entropies_T, top_logprobs_T_K=top_T_K,
        ref_top_logprobs_T_K=REF_TOP.repeat(2, 1),
    )  # fmt: skip


def check_the_entropy_bonus_is_minus_the_weighted_sum():
    entropies_T = double([ENTROPY, 0.5 * LN2]).requires_grad_()
    term = entropy.bonus(streams(entropies_T), 0.3)
    assert close(term.total, -0.3 * (ENTROPY / 2 + LN2))
    (gradient_T,) = torch.autograd.grad(term.total, entropies_T)
    assert close(gradient_T, [-0.15, -0.6])
    assert not term.metrics


def check_the_divergence_over_k_tokens_and_its_gradient():
    logits_V = P.log().requires_grad_()
    found = kl.top_k(logits_V.log_softmax(-1)[None, :2], REF_TOP[None])
    assert close(found, [KL_TOP])
    (gradient_V,) = torch.autograd.grad(found.sum(), logits_V)
    assert close(gradient_V, OF_KL_TOP)


def check_the_divergence_over_k_tokens_through_the_head():
    stats, hidden_N_D = stats_of(head(), [[0, 1]])
    found = kl.top_k(stats.logprobs_N_K, REF_TOP[None].float())
    assert close(found, [KL_TOP])
    found.sum().backward()
    assert close(hidden_N_D.grad[0], pulled(OF_KL_TOP))


def check_the_divergence_where_k_tokens_have_it_all():
    sure_T_K = torch.tensor([[0.0, -40.0]], requires_grad=True)
    found = kl.top_k(sure_T_K, sure_T_K.detach())
    found.sum().backward()
    assert close(found, [0.0])
    assert sure_T_K.grad.isfinite().all()
    halves = double([[0.5, 0.5]]).log()
    assert close(kl.top_k(halves, double([[0.25, 0.75]]).log()), [LN2 - 0.5 * LN3])


def check_the_penalty_over_k_tokens_is_scaled_and_measured():
    ours_T_K = torch.stack([P[:2].log(), REF_TOP])
    term = kl.penalty(streams(top_T_K=ours_T_K), "top_k", 0.3)
    assert close(term.total, 0.3 * KL_TOP / 2)  # the second token agrees with its reference
    assert close(term.metrics["kl_top_k"], KL_TOP / 2)
    assert close(term.metrics["kl_ref"], (0.5 - 1 + LN2) / 2)
    assert set(kl.penalty(streams(), "k2", 0.3).metrics) == {"kl_ref"}
