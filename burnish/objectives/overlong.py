"""The soft penalty on replies that near the length limit.

DAPO, https://arxiv.org/abs/2503.14476, eq. 13: 0 up to `max_length - cache`, then falling linearly to -1 at
`max_length`. It is added to the reward, before advantages are taken.
"""


def soft_penalty(length: int, *, max_length: int, cache: int) -> float:
    """What to add to the reward of a reply of `length` tokens."""
    if not 0 < cache <= max_length:
        raise ValueError(f"the penalised stretch `cache` lies in 1..max_length ({max_length}); got {cache}")
    return -min(max(length - (max_length - cache), 0) / cache, 1.0)
