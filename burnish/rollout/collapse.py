"""Entropy collapse: a policy that has stopped trying is told of, once, at the step at which it shows.

A policy whose entropy is gone samples one reply over and over: groups lose their signal, and nothing more is
learned (Cui et al., https://arxiv.org/abs/2505.22617, fit reward to entropy and find that the one is bought with
the other). What is low depends on the tasks, so the measure is the stage's own beginning. A floor in nats is the
user's to set: below it the run stops.
"""

from collections.abc import Sequence
from typing import Final

from burnish.core.errors import InvariantError

NUM_FIRST: Final = 3
NUM_LOW: Final = 3
SHARE: Final = 0.1


def collapse_message(entropies: Sequence[float]) -> str | None:
    """Say that the entropy has collapsed, if it shows at the newest step and did not at the one before.

    Args:
        entropies: mean entropy of the policy in nats a token, one for each step of the stage so far.
    """
    if not _has_collapsed(entropies) or _has_collapsed(entropies[:-1]):
        return None
    return (
        f"entropy has collapsed: {entropies[-1]:.4f} nats a token, {_mean(entropies[:NUM_FIRST]):.4f} in the first "
        "steps of the stage; from here on most groups will have no signal. Lower learning_rate, raise temperature or "
        "entropy_bonus, or set clip_high above clip_low"
    )


def check_floor(entropy: float, floor: float) -> None:
    """Stop the run where the entropy, in nats a token, is below the recipe's floor."""
    if entropy < floor:
        raise InvariantError(
            f"the policy's entropy is {entropy:.4f} nats a token, below entropy_floor = {floor}; go back to an earlier "
            "checkpoint with a lower learning_rate, or lower the floor"
        )


def _has_collapsed(entropies: Sequence[float]) -> bool:
    low = SHARE * _mean(entropies[:NUM_FIRST])
    newest = entropies[NUM_FIRST:][-NUM_LOW:]
    return len(newest) == NUM_LOW and all(entropy < low for entropy in newest)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
