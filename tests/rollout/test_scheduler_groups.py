"""Groups that are not alike: each domain has its own size, its own bound on age, and its own use for equal scores."""

import pytest

from burnish.core.config import validate
from burnish.core.errors import ConfigError
from burnish.rollout.scheduler import Scheduler
from burnish.rollout.scheduler_config import SchedulerConfig
from tests.rollout.scheduler_world import World
from tests.rollout.test_scheduler import begun, config, prompt, score


def test_a_group_begins_with_as_many_members_as_its_domain_says_and_is_complete_with_them():
    scheduler = Scheduler(config(batch_groups=2, groups={"b": {"group_size": 3}}))
    tickets = begun(scheduler, prompt("g"), prompt("h", domain="b"))
    assert [ticket.group_id for ticket in tickets] == ["g", "g", "h", "h", "h"]
    for value, ticket in enumerate(tickets):
        score(scheduler, ticket, value)
    assert [group.members for group in scheduler.next_batch(1.0).groups] == [(0, 1), (0, 1, 2)]


def test_equal_scores_train_where_the_domain_compares_nothing():
    scheduler = Scheduler(config(groups={"b": {"needs_signal": False}}))
    for ticket in begun(scheduler, prompt("h", domain="b")):
        score(scheduler, ticket, 0.5)
    assert [group.group_id for group in scheduler.next_batch(1.0).groups] == ["h"]


@pytest.mark.parametrize("overdue", ["wait", "drop", "restart"])
@pytest.mark.parametrize("seed", [1, 2])
def test_no_group_trains_older_than_its_own_domain_allows(overdue: str, seed: int):
    options = {
        "batch_groups": 3, "group_size": 4, "num_batches": 8, "max_staleness": 2, "batch_order": "due",
        "overdue": overdue, "groups": {"a": {"max_staleness": 1, "group_size": 2}},
    }  # fmt: skip
    world = World(SchedulerConfig.model_validate(options), seed).run()
    assert [plan.version for plan in world.batches] == list(range(8))
    lags = {"a": set[int](), "b": set[int]()}
    for plan in world.batches:
        for group in plan.groups:
            lags[group.domain].add(plan.version - group.oldest_version)
            assert len(group.members) <= (2 if group.domain == "a" else 4)
    assert max(lags["a"]) == 1
    assert max(lags["b"]) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": {"a": {"group_size": 1}}}, "groups of 'a': one member has nothing to be compared with"),
        ({"groups": {"a": {"max_staleness": 1}}}, r"groups of 'a': max_staleness \(1\) is above that of all \(0\)"),
        ({"min_members": 3, "group_size": 4, "groups": {"a": {"group_size": 2}}}, r"min_members \(3\) is above"),
    ],
)
def test_rules_of_groups_that_cannot_hold_are_refused(options: dict[str, object], message: str):
    with pytest.raises(ConfigError, match=message):
        validate(SchedulerConfig, {"batch_groups": 1, "group_size": 2, **options}, "scheduler")
