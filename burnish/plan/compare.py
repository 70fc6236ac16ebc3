"""The same work under other policies, and under other splits of the same accelerators."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from burnish.core.config import validate
from burnish.plan.cluster import Cluster
from burnish.plan.outcome import Outcome
from burnish.plan.simulate import simulate
from burnish.rollout.scheduler_config import SchedulerConfig

WAITS: dict[str, Any] = {"oversample": 0.0, "overdue": "wait"}
POLICIES: dict[str, dict[str, Any]] = {
    "synchronous": {"max_staleness": 0, "batch_order": "admission", **WAITS},
    "admission": {"batch_order": "admission", **WAITS},
    "due": {"batch_order": "due", **WAITS},
    "due, mask": {"batch_order": "due", "overdue": "mask"},
    "due, restart": {"batch_order": "due", "overdue": "restart"},
    "ready, drop": {"batch_order": "ready", "overdue": "drop"},
    "admission, 2 extra members": {"batch_order": "admission", "extra_members": 2, **WAITS},
}
NUM_SPLITS = 8


class Variant(NamedTuple):
    """A changed cluster and what it came to."""

    name: str
    """`batch_order`, `overdue`, and what else is changed."""
    outcome: Outcome


def policies(cluster: Cluster) -> Iterator[Variant]:
    """As the file says, then each policy with everything else as it is."""
    yield Variant("as given", simulate(cluster))
    for name, changes in POLICIES.items():
        options = cluster.scheduler.model_dump() | changes
        scheduler = validate(SchedulerConfig, options, f"policy {name!r}")
        yield Variant(name, simulate(cluster.model_copy(update={"scheduler": scheduler})))


def splits(cluster: Cluster) -> Iterator[Variant]:
    """Other shares of the same accelerators for learner and engines, about `NUM_SPLITS` of them."""
    size = cluster.engines.accelerators
    total = cluster.learner.num + cluster.engines.num * size
    num_engines = sorted({max(1, round(total * i / (NUM_SPLITS + 1) / size)) for i in range(1, NUM_SPLITS + 1)})
    for num in num_engines:
        num_learners = total - num * size
        if num_learners < 1:
            continue
        engines = cluster.engines.model_copy(update={"num": num})
        learner = cluster.learner.model_copy(update={"num": num_learners})
        outcome = simulate(cluster.model_copy(update={"engines": engines, "learner": learner}))
        yield Variant(f"{num_learners} learner, {num} engines", outcome)


def best(variants: list[Variant]) -> Variant:
    """The one that trains the most tokens a second; the first of equals."""
    return max(variants, key=lambda variant: variant.outcome.tokens_per_s)
