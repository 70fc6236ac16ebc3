"""Whether counts agree with probabilities: Pearson's test, at one false alarm in a thousand."""

import math
from collections.abc import Mapping

Z_OF_ONE_IN_A_THOUSAND = 3.0902


def agrees(counts: Mapping[object, int], expected: Mapping[object, float]) -> bool:
    """Whether nothing impossible was drawn, and Pearson's statistic is below its critical value."""
    num_drawn = sum(counts.values())
    possible = {what: num_drawn * share for what, share in expected.items() if share > 0}
    assert math.isclose(sum(possible.values()), num_drawn, rel_tol=1e-6)
    assert min(possible.values()) >= 5, "too few draws for the test"
    statistic = sum((counts.get(what, 0) - n) ** 2 / n for what, n in possible.items())
    return set(counts) <= set(possible) and statistic <= _critical(len(possible) - 1)


def _critical(degrees: int) -> float:
    """Wilson and Hilferty's approximation (1931)."""
    if degrees == 0:
        return 0.0
    part = 2 / (9 * degrees)
    return degrees * (1 - part + Z_OF_ONE_IN_A_THOUSAND * math.sqrt(part)) ** 3
