"""The least time in which engines can sample a batch, for a scheduler that knows every length beforehand.

With n members at once a token takes `a + b (n - 1)` seconds, so an engine whose longest member has m tokens, and all
its members together k, is busy for at least `(a - b) m + b k`. In T seconds it therefore samples at most

    C(m) = (T - (a - b) m) / b        where m is longer than what it samples in T with all its places full

and as many as with all places full otherwise; C falls with m. Let m_1 >= m_2 >= ... be the longest members of the
engines. All members longer than m_k are on the engines before k, so their tokens are at most C(m_1) + ... + C(m_{k-1}).
Taken from the longest member down, that says of each engine how long its longest member must at least be, and so how
much it can sample at most; if all engines together sample less than the batch has, T was too short.

A member stays on its engine, as in every policy that waits for it.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from math import inf

from burnish.plan.cluster import Engines

_PRECISION = 1e-4


def least_sampling_s(lengths: Sequence[int], engines: Engines) -> float:
    """See the module's docstring; a lower bound to within a ten-thousandth."""
    longest_first = sorted(lengths, reverse=True)
    sums = list(accumulate(longest_first))
    best_rate = engines.best_rate

    def is_enough(time_s: float) -> bool:
        """Whether so much time could do."""
        full, at_most = time_s * best_rate / engines.num, 0.0
        for _ in range(engines.num):
            num_placed = bisect_right(sums, at_most)
            if num_placed == len(sums):
                return True
            at_most += min(full, _most_tokens(time_s, longest_first[num_placed], engines))
        return sums[-1] <= at_most

    low_s = max(longest_first[0] * engines.token_s, sums[-1] / best_rate)
    if is_enough(low_s):
        return low_s
    high_s = low_s * 2
    while not is_enough(high_s):
        low_s, high_s = high_s, high_s * 2
    while high_s > low_s * (1 + _PRECISION):
        middle_s = (low_s + high_s) / 2
        if is_enough(middle_s):
            high_s = middle_s
        else:
            low_s = middle_s
    return low_s


def _most_tokens(time_s: float, longest: int, engines: Engines) -> float:
    """How many tokens one engine samples at most, if its longest member has so many; places aside."""
    alone_s, more_s = engines.token_s, engines.token_s_per_member
    if not 0 < more_s < alone_s:
        return inf
    return (time_s - (alone_s - more_s) * longest) / more_s
