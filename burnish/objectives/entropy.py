"""A bonus for entropy: what keeps the policy's distributions from closing up.

PPO, https://arxiv.org/abs/1707.06347, eq. 9 (its c2 S); A3C, https://arxiv.org/abs/1602.01783, section 4. The entropy
is that of the whole distribution at each trained token, at the sampling temperature, and its gradient is exact
(`models.fused_head`). It is that of the next token alone: effects of a token on later entropies have no part in it.
Off by default, as in PPO's text and in current recipes; published values lie around 0.001 to 0.01.
"""

from burnish.objectives import Loss, Streams, ops


def bonus(s: Streams, coefficient: float) -> Loss:
    """The term to add to any loss (`ops.add`); the learner measures the entropy itself."""
    return Loss(total=-coefficient * (ops.required(s.entropies_T, "entropies_T") * s.weights_T).sum(), metrics={})
