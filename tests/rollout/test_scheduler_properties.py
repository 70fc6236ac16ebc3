"""What the scheduler promises, whatever the timings: random worlds, driven to their last batch."""

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from burnish.rollout.scheduler_config import DomainRules, SchedulerConfig
from tests.rollout.scheduler_world import World

FEW = settings(max_examples=6, deadline=None, derandomize=True, phases=[Phase.generate])
MODES = [
    {"batch_order": "admission"},
    {"batch_order": "due"},
    {"batch_order": "due", "overdue": "mask", "oversample": 0.5},
    {"batch_order": "due", "overdue": "restart", "oversample": 0.5},
    {"batch_order": "ready", "overdue": "drop", "oversample": 0.25},
    {"batch_order": "ready", "overdue": "mask"},
]
modes = pytest.mark.parametrize("mode", MODES, ids=lambda mode: "-".join(map(str, mode.values())))
common = st.fixed_dictionaries(
    {
        "max_staleness": st.integers(0, 3),
        "lookahead": st.sampled_from([0, 5]),
        "extra_members": st.sampled_from([0, 2]),
        "min_members": st.sampled_from([None, 4]),
        "num_retries": st.integers(0, 2),
        "on_weights": st.sampled_from(["continue", "finish"]),
    }
)
seeds = st.integers(0, 2**32)


def config_of(mode, options, **more) -> SchedulerConfig:
    return SchedulerConfig.model_validate(
        {"batch_groups": 3, "group_size": 4, "num_batches": 8, "ageing_s": 5.0, **mode, **options, **more}
    )


@modes
@FEW
@given(options=common, seed=seeds, num_slots=st.integers(1, 40))
def test_no_trained_token_is_too_old_and_the_run_comes_to_its_last_batch(mode, options, seed, num_slots):
    config = config_of(mode, options)
    world = World(config, seed, num_slots=num_slots).run()
    assert [plan.version for plan in world.batches] == list(range(8))
    for plan in world.batches:
        oldest_allowed = plan.version - config.max_staleness
        assert plan.oldest_trainable_version == oldest_allowed
        for group in plan.groups:
            versions = [world.sampled_versions[group.group_id, member] for member in group.members]
            assert (group.oldest_version, group.newest_version) == (min(versions)[0], max(v[1] for v in versions))
            assert (group.newest_version if config.overdue == "mask" else group.oldest_version) >= oldest_allowed
            assert config.grouping(group.domain).num_needed <= len(group.members) <= config.group_size
    if config.overdue == "wait":
        assert not [ended for ended in world.ended if ended.why == "stale"]


@modes
@FEW
@given(options=common, seed=seeds)
def test_each_prompt_trains_or_ends_or_waits_exactly_once(mode, options, seed):
    world = World(config_of(mode, options), seed).run()
    trained = [group.group_id for plan in world.batches for group in plan.groups]
    waiting = [entry["prompt"]["group_id"] for entry in world.scheduler.to_json()["intake"]["backlog"]]
    assert sorted(trained + [ended.group_id for ended in world.ended] + waiting) == sorted(world.offered)


@modes
@FEW
@given(options=common, seed=seeds)
def test_the_same_events_give_the_same_decisions_also_through_json(mode, options, seed):
    config = config_of(mode, options, domains={"a": DomainRules(max_in_flight=5)})
    logs = [World(config, seed, reloads_every=every).run().log for every in (0, 0, 3)]
    assert logs[0] == logs[1] == logs[2]


@FEW
@given(options=common, seed=seeds, most=st.sampled_from([1, 3, 9, 60]))
def test_quotas_and_budgets_hold_and_a_spent_domain_is_told_of(options, seed, most):
    rules = DomainRules(max_in_flight=most, token_budget=3000, sandbox_budget_s=40.0)
    world = World(config_of({}, options, domains={"a": rules}), seed).run()
    account = world.scheduler.domain_status()["a"]
    assert world.most_in_flight["a"] <= most
    assert account.tokens <= 3000
    assert account.sandbox_s <= 40.0
    spent = [ended for ended in world.ended if ended.why == "budget"]
    assert bool(spent) == any("has spent its budget" in notice for notice in world.notices)


@FEW
@given(seed=seeds, order=st.permutations(["1.0", "0.5", "0.001"]))
def test_no_prompt_waits_for_ever_however_poor_its_priority(seed, order):
    weights = dict(zip("abc", map(float, order), strict=True))
    config = config_of({}, {"lookahead": 12, "max_staleness": 1, "num_batches": 30, "ageing_s": 1.0})
    world = World(config, seed, domains=("a", "b", "c"), failure_share=0.0, alike_share=0.0)
    world.scheduler._state.intake._priority = lambda prospect: weights[prospect.domain]
    world.run()
    trained = {int(group.group_id) % 3 for plan in world.batches[5:] for group in plan.groups}
    assert trained == {0, 1, 2}
