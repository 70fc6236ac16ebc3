"""How much of the training each domain gets: pure functions from weights and measurements to shares that sum to 1.

- `by_temperature`: p ~ w^(1/T). T = 1 keeps the weights, a large T makes all domains equal (Arivazhagan et al.,
  https://arxiv.org/abs/1907.05019, section 4.2, on languages for translation; w is there the size of a data set).
- `by_signal`: w times what was measured of a domain's groups, such as the share of them that can teach.
- `by_slips`: w, raised where a domain's reward has fallen below its best.
- `with_least`: no domain that trains is starved, so that its measurements stay fresh.

A weight of 0 stays 0 in all of them.
"""

from collections.abc import Mapping


def normalised(weights: Mapping[str, float]) -> dict[str, float]:
    """Divide by the sum, which must be above 0."""
    total = sum(weights.values())
    assert total > 0, "some domain trains"
    return {name: weight / total for name, weight in weights.items()}


def by_temperature(weights: Mapping[str, float], temperature: float) -> dict[str, float]:
    """Level the weights: each to the power of 1 / temperature."""
    largest = max(weights.values())  # weights of any size are powers of numbers of at most 1
    return normalised({name: (weight / largest) ** (1 / temperature) for name, weight in weights.items()})


def by_signal(weights: Mapping[str, float], signals: Mapping[str, float]) -> dict[str, float]:
    """Weigh by what was measured; where nothing was, or all of it is 0, the weights stand."""
    weighed = {name: weight * signals.get(name, 1.0) for name, weight in weights.items()}
    return normalised(weighed if sum(weighed.values()) > 0 else weights)


def by_slips(weights: Mapping[str, float], slips: Mapping[str, float], *, strength: float) -> dict[str, float]:
    """Raise a weight by `strength` times how far its domain's reward has slipped."""
    return normalised({name: weight * (1 + strength * slips.get(name, 0.0)) for name, weight in weights.items()})


def with_least(shares: Mapping[str, float], least: float) -> dict[str, float]:
    """Give each share above 0 at least `least` of an equal share; the others pay in proportion."""
    names = [name for name, share in shares.items() if share > 0]
    floor = least / len(names)
    raised: set[str] = set()
    while True:
        left = 1 - floor * len(raised)
        rest = sum(shares[name] for name in names if name not in raised)
        found = {name: floor if name in raised else shares[name] * left / rest for name in names}
        below = {name for name in names if name not in raised and found[name] < floor}
        if not below:
            return {name: found.get(name, 0.0) for name in shares}
        raised |= below
