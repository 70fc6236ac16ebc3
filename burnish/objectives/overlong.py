"""What DAPO does about replies that are too long: a filter and a soft penalty.

https://arxiv.org/abs/2503.14476, section 3.4. The penalty, eq. 13, is 0 up to `max_length - cache`, then falls linearly
to -1 at `max_length`; it is added to the reward, before advantages are taken. The filter leaves replies that were
cut off out of the loss; ours: they still count in their group's baseline, as in the authors' code. Both are
options of stage `rl`, which masks and adds.
"""


def soft_penalty(length: int, *, max_length: int, cache: int) -> float:
    """What to add to the reward of a reply of `length` tokens."""
    if not 0 < cache <= max_length:
        raise ValueError(f"the penalised stretch `cache` lies in 1..max_length ({max_length}); got {cache}")
    return -min(max(length - (max_length - cache), 0) / cache, 1.0)
