"""The scheduler, decision by decision, without a world."""

import json
import math

import pytest

from burnish.core.errors import ConfigError
from burnish.rollout import concurrency
from burnish.rollout.lengths import LogNormal, Moments, predict
from burnish.rollout.priority import Prospect, priority
from burnish.rollout.scheduler import Scheduler
from burnish.rollout.scheduler_config import ConcurrencyRules, DomainRules, SchedulerConfig
from burnish.rollout.scheduler_types import Load, Prompt, Ticket


def config(**options) -> SchedulerConfig:
    return SchedulerConfig.model_validate({"batch_groups": 1, "group_size": 2, **options})


def prompt(name: str, **options) -> Prompt:
    return Prompt(**{"group_id": name, "domain": "a", "max_tokens": 100, **options})


def begun(scheduler: Scheduler, *prompts: Prompt, now_s: float = 0.0) -> list[Ticket]:
    """Offer prompts and start what may start."""
    scheduler.offer(prompts or [prompt("g")], now_s)
    return [start.ticket for start in scheduler.decide(now_s).start]


def score(scheduler: Scheduler, ticket: Ticket, value: float | None, now_s: float = 1.0, kind: str = "scored"):
    scheduler.sampled(ticket, now_s, num_tokens=10, oldest_version=0, newest_version=0)
    scheduler.judged(ticket, now_s, kind=kind, score=value)


def test_a_synchronous_scheduler_starts_nothing_from_a_batch_until_its_weights_are_loaded():
    scheduler = Scheduler(config(num_batches=3))
    for value, ticket in enumerate(begun(scheduler)):
        score(scheduler, ticket, value)
    assert [group.group_id for group in scheduler.next_batch(1.0).groups] == ["g"]
    assert begun(scheduler, prompt("h"), now_s=2.0) == []
    scheduler.weights_ready(1, 3.0)
    decision = scheduler.decide(3.0)
    assert decision.load_weights and not decision.start
    scheduler.weights_loaded(1, 4.0)
    assert [start.ticket.group_id for start in scheduler.decide(4.0).start] == ["h", "h"]


def test_a_verdict_that_is_no_score_never_trains_and_shifts_no_other():
    scheduler = Scheduler(config(group_size=3, num_retries=0))
    first, second, third = begun(scheduler)
    score(scheduler, first, None, kind="unscorable")
    score(scheduler, second, 1.0)
    score(scheduler, third, 0.0)
    (group,) = scheduler.next_batch(1.0).groups
    assert (group.members, group.num_lost) == ((1, 2), 1)


def test_machinery_that_fails_is_tried_again_and_an_unscorable_reply_is_not():
    scheduler = Scheduler(config(group_size=2, num_retries=1, min_members=2))
    first, second = begun(scheduler)
    score(scheduler, first, None, kind="infrastructure_error")
    (again,) = scheduler.decide(1.0).start
    assert again.ticket == first._replace(attempt=1)
    assert not scheduler.judged(first, 1.0, kind="scored", score=1.0)  # the old attempt's verdict comes too late
    score(scheduler, again.ticket, None, kind="unscorable")
    decision = scheduler.decide(1.0)
    assert [(ended.group_id, ended.why) for ended in decision.ended] == [("g", "failed")]
    assert decision.cut == (second,)  # to fail fast: its sibling is of no use


def test_when_enough_members_are_scored_the_longest_are_cut():
    scheduler = Scheduler(config(extra_members=1))
    first, second, third = begun(scheduler)
    score(scheduler, second, 1.0)
    score(scheduler, first, 0.0)
    assert scheduler.decide(1.0).cut == (third,)
    (group,) = scheduler.next_batch(1.0).groups
    assert (group.members, group.num_cut) == ((0, 1), 1)


def test_a_batch_is_short_when_its_draws_are_spent_and_a_barren_domain_is_named():
    scheduler = Scheduler(config(batch_groups=2, max_draws_factor=2.0, barren_after=4))
    notices = []
    for number in range(4):
        assert scheduler.num_wanted(0.0) > 0
        for ticket in begun(scheduler, prompt(str(number))):
            score(scheduler, ticket, 1.0, now_s=0.0)
        notices += scheduler.decide(0.0).notices
    assert scheduler.num_wanted(0.0) == 0
    plan = scheduler.next_batch(0.0)
    assert (plan.groups, plan.is_short) == ((), True)
    assert len(notices) == 1
    assert "domain 'a': 4 groups in a row without signal" in notices[0]


def test_in_order_of_admission_a_fast_group_waits_for_a_slow_one_and_due_order_lets_it_pass():
    trained = {}
    for order in ("admission", "due"):
        scheduler = Scheduler(config(batch_order=order, max_staleness=1))
        tickets = begun(scheduler, prompt("slow"), prompt("fast"))
        for value, ticket in enumerate(ticket for ticket in tickets if ticket.group_id == "fast"):
            score(scheduler, ticket, value)
        plan = scheduler.next_batch(1.0)
        trained[order] = plan and plan.groups[0].group_id
    assert trained == {"admission": None, "due": "fast"}


def test_a_group_that_would_be_too_old_next_time_is_waited_for():
    scheduler = Scheduler(config(batch_order="due", max_staleness=1))
    tickets = begun(scheduler, prompt("slow"), prompt("fast"))
    for value, ticket in enumerate(ticket for ticket in tickets if ticket.group_id == "fast"):
        score(scheduler, ticket, value)
    scheduler.next_batch(1.0)
    scheduler.weights_ready(1, 1.0)
    scheduler.weights_loaded(1, 1.0)
    for value, ticket in enumerate(begun(scheduler, prompt("faster"), now_s=1.0)):
        score(scheduler, ticket, value)
    assert scheduler.next_batch(1.0) is None


def test_tokens_older_than_the_engines_should_sample_never_train():
    scheduler = Scheduler(config(needs_signal=False, num_retries=0))
    for ticket in begun(scheduler):
        score(scheduler, ticket, 1.0)
    scheduler.next_batch(1.0)
    scheduler.weights_ready(1, 2.0)
    scheduler.weights_loaded(1, 2.0)
    for ticket in begun(scheduler, prompt("h"), now_s=2.0):
        score(scheduler, ticket, 1.0, now_s=3.0)  # an engine that says it sampled with version 0
    assert [(ended.group_id, ended.why) for ended in scheduler.decide(3.0).ended] == [("h", "stale")]


def test_over_sampling_restarts_what_is_late_and_then_waits_for_it():
    scheduler = Scheduler(config(batch_order="due", overdue="restart", oversample=1.0))
    tickets = begun(scheduler, prompt("slow"), prompt("fast"))
    for value, ticket in enumerate(ticket for ticket in tickets if ticket.group_id == "fast"):
        score(scheduler, ticket, value)
    assert scheduler.next_batch(1.0).groups[0].group_id == "fast"
    decision = scheduler.decide(1.0)
    assert decision.restarted == ("slow",)
    assert {ticket.group_id for ticket in decision.cut} == {"slow"}
    scheduler.weights_ready(1, 2.0)
    scheduler.weights_loaded(1, 2.0)
    tickets = begun(scheduler, prompt("other"), now_s=2.0)
    assert tickets[0] == Ticket("slow", 0, 1)
    for value, ticket in enumerate(ticket for ticket in tickets if ticket.group_id == "other"):
        score(scheduler, ticket, value, now_s=2.0)
    assert scheduler.next_batch(2.0) is None


def test_what_is_masked_is_paused_and_goes_on_with_the_new_weights():
    scheduler = Scheduler(config(batch_order="due", overdue="mask", oversample=1.0))
    tickets = begun(scheduler, prompt("slow"), prompt("fast"))
    for value, ticket in enumerate(ticket for ticket in tickets if ticket.group_id == "fast"):
        score(scheduler, ticket, value)
    scheduler.next_batch(1.0)
    paused = scheduler.decide(1.0).pause
    assert {ticket.group_id for ticket in paused} == {"slow"}
    for ticket in paused:
        scheduler.paused(ticket, 1.0, num_tokens=4, oldest_version=0)
    assert scheduler.decide(1.0).start == ()
    scheduler.weights_ready(1, 2.0)
    scheduler.weights_loaded(1, 2.0)
    starts = scheduler.decide(2.0).start
    assert [(start.ticket, start.resumes) for start in starts] == [(ticket, True) for ticket in paused]
    for value, ticket in enumerate(paused):
        scheduler.sampled(ticket, 3.0, num_tokens=9, oldest_version=0, newest_version=1)
        scheduler.judged(ticket, 3.0, kind="scored", score=value)
    plan = scheduler.next_batch(3.0)
    assert (plan.oldest_trainable_version, plan.groups[0].oldest_version, plan.groups[0].newest_version) == (1, 0, 1)


def test_short_tasks_go_first_and_a_long_one_only_waits_so_long():
    scheduler = Scheduler(config(lookahead=9, ageing_s=10.0, level_bounds_s=[30.0], level_delay_s=100.0))
    scheduler.offer([prompt("long", level=1)], 0.0)
    scheduler.offer([prompt("short")], 50.0)
    assert {start.ticket.group_id for start in scheduler.decide(50.0).start} == {"short"}
    scheduler = Scheduler(config(lookahead=9, ageing_s=10.0, level_delay_s=100.0))
    scheduler.offer([prompt("long", level=1)], 0.0)
    scheduler.offer([prompt("short")], 101.0)
    assert {start.ticket.group_id for start in scheduler.decide(101.0).start} == {"long"}


def test_a_deadline_lets_a_prompt_pass_and_ends_it_when_it_is_over():
    scheduler = Scheduler(config(lookahead=9))
    scheduler.offer([prompt("first"), prompt("urgent", level=3, deadline_s=5.0)], 0.0)
    tickets = [start.ticket for start in scheduler.decide(4.0).start]
    assert {ticket.group_id for ticket in tickets} == {"urgent"}
    decision = scheduler.decide(5.0)
    assert [(ended.group_id, ended.why) for ended in decision.ended] == [("urgent", "deadline")]
    assert set(decision.cut) == set(tickets)
    assert {start.ticket.group_id for start in decision.start} == {"first"}


def test_a_domain_gives_each_of_its_prompts_a_deadline_from_when_it_was_drawn():
    scheduler = Scheduler(config(lookahead=9, domains={"slow": {"deadline_s": 5.0}}))
    scheduler.offer([prompt("own", domain="slow", deadline_s=99.0), prompt("given", domain="slow")], 2.0)
    assert {start.ticket.group_id for start in scheduler.decide(6.9).start} == {"given"}
    assert [(ended.group_id, ended.why) for ended in scheduler.decide(7.0).ended] == [("given", "deadline")]


def test_a_spent_budget_ends_prompts_and_says_so():
    scheduler = Scheduler(config(domains={"a": DomainRules(token_budget=150)}))
    scheduler.offer([prompt("g")], 0.0)
    decision = scheduler.decide(0.0)
    assert [ended.why for ended in decision.ended] == ["budget"]
    assert "domain 'a' has spent its budget" in decision.notices[0]


def test_a_stall_has_a_name():
    scheduler = Scheduler(config())
    first, second = begun(scheduler)
    score(scheduler, first, 1.0)
    scheduler.sampled(second, 10.0, num_tokens=5, oldest_version=0, newest_version=0)
    status = scheduler.status(100.0)
    assert (status.waits_for, status.waiting_s, status.longest.ticket) == ("verdicts", 90.0, second)
    assert status.text.startswith("waiting 90 s for verdicts: 0 being sampled, 1 being judged")
    assert "oldest: group g (a), member 1, judging for 90 s" in status.text


@pytest.mark.parametrize("order", ["due", "admission"])
def test_groups_that_an_earlier_process_had_begun_train_before_newer_ones_and_in_time(order):
    scheduler = Scheduler(config(max_staleness=1, batch_order=order), first_version=5)
    scheduler.offer([prompt("old", max_tokens=1000, level=1)], 0.0, had_begun=True)
    tickets = begun(scheduler, prompt("new", level=0))
    for value, ticket in enumerate(sorted(tickets)):
        version = 4 if ticket.group_id == "old" else 5
        scheduler.sampled(ticket, 1.0, num_tokens=10, oldest_version=version, newest_version=version)
        scheduler.judged(ticket, 1.0, kind="scored", score=value)
    assert [group.group_id for group in scheduler.next_batch(2.0).groups] == ["old"]


def test_a_batch_waits_for_a_group_whose_tokens_are_older_than_its_begin():
    scheduler = Scheduler(config(max_staleness=1, batch_order="due"), first_version=5)
    tickets = begun(scheduler, prompt("old"), prompt("new"))
    for ticket in tickets:
        version = 4 if ticket.group_id == "old" else 5
        scheduler.sampled(ticket, 1.0, num_tokens=10, oldest_version=version, newest_version=version)
    verdicts = [ticket for ticket in tickets if ticket.group_id == "new"] + [t for t in tickets if t.group_id == "old"]
    for value, ticket in enumerate(verdicts):
        assert scheduler.next_batch(2.0) is None
        scheduler.judged(ticket, 2.0, kind="scored", score=value)
    assert [group.group_id for group in scheduler.next_batch(2.0).groups] == ["old"]


def test_a_crash_loses_what_was_in_flight_and_no_prompt():
    scheduler = Scheduler(config())
    first, second = begun(scheduler)
    score(scheduler, first, 1.0)
    restored = Scheduler.restored(scheduler.config, scheduler.to_json())
    restored.interrupted(2.0)
    assert [start.ticket for start in restored.decide(2.0).start] == [second._replace(attempt=1)]


def test_a_prompt_is_offered_once():
    scheduler = Scheduler(config())
    scheduler.offer([prompt("g")], 0.0)
    with pytest.raises(ValueError, match="'g' was offered before"):
        scheduler.offer([prompt("g")], 0.0)


def test_the_last_batch_leaves_nothing_in_flight():
    scheduler = Scheduler(config(num_batches=1, max_staleness=3))
    assert scheduler.num_wanted(0.0) == 1


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"oversample": 0.5}, "say by overdue"),
        ({"overdue": "drop"}, "would do nothing"),
        ({"batch_order": "ready"}, "grow too old"),
        ({"min_members": 3}, "above group_size"),
        ({"group_size": 1}, "nothing to be compared with"),
        ({"level_bounds_s": [2.0, 1.0]}, "must rise"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options, fault):
    with pytest.raises(ValueError, match=fault):
        config(**options)


def test_an_unknown_priority_is_refused_by_name():
    with pytest.raises(ConfigError, match="no plugin 'none' in priorities; there are: priority"):
        Scheduler(config(priority="none"))


def prospect(**changes) -> Prospect:
    values = {
        "domain": "a", "level": 0, "num_past": 0, "past_variance": 0.0, "versions_since": 0, "domain_variance": 0.2,
        "expected_lag": 0.0, "predicted_tokens": 100.0, "predicted_s": 2.0,
    }  # fmt: skip
    return Prospect(**{**values, **changes})


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, 0.2 / 2),
        ({"predicted_s": 4.0}, 0.2 / 4),
        ({"expected_lag": 8.0}, 0.1 / 2),
        ({"num_past": 4, "past_variance": 0.25}, (4 * 0.25 + 4 * 0.2) / 8 / 2),
        ({"num_past": 4, "versions_since": 32}, (4 * 0.2) / 6 / 2),
    ],
)
def test_priority_is_signal_times_freshness_by_cost(changes, expected):
    assert priority(prospect(**changes)) == pytest.approx(expected)


def test_a_length_is_predicted_from_the_groups_own_members_and_its_domain():
    domain, within = Moments(weight=100, mean=5.0, variance=1.0), Moments(weight=10, mean=0.25)
    assert predict(domain, within, 0, 0.0) == LogNormal(5.0, 1.0)
    # precision 2 / 0.25 of two members at 6.0 against 1 / 0.75 of the domain at 5.0
    posterior = (8 * 6.0 + 5.0 / 0.75) / (8 + 1 / 0.75)
    assert predict(domain, within, 2, 12.0) == pytest.approx((posterior, 0.25 + 1 / (8 + 1 / 0.75)))


def test_what_runs_already_is_predicted_longer():
    length = LogNormal(5.0, 1.0)
    assert length.mean == pytest.approx(math.exp(5.5))
    # E[X | X > e^5]: e^5.5 Φ(1) / Φ(0)
    assert length.mean_beyond(math.exp(5.0)) == pytest.approx(math.exp(5.5) * 0.8413447 / 0.5, rel=1e-6)


@pytest.mark.parametrize(
    ("load", "num_in_flight", "expected"),
    [
        (Load(kv_used=0.5), 20, 30.0),  # room: up by a tenth of most
        (Load(kv_used=0.5), 19, 20.0),  # the limit was not reached
        (Load(kv_used=0.9), 20, 20.0),  # between low and high
        (Load(kv_used=0.96), 20, 16.0),  # memory runs short
        (Load(num_waiting=1), 20, 16.0),  # members wait inside the engines
        (Load(num_waiting_verdicts=90, num_sandboxes=10), 20, 16.0),  # replies wait for sandboxes
    ],
)
def test_the_limit_follows_what_is_measured(load, num_in_flight, expected):
    rules = ConcurrencyRules(most=100)
    assert concurrency.follow(concurrency.Limit(20.0, 0.0), load, rules, num_in_flight, 5.0).value == expected
    assert concurrency.follow(concurrency.Limit(20.0, 4.0), load, rules, num_in_flight, 5.0).value == 20.0


def test_a_budget_and_predictions_go_on_where_an_earlier_process_left_them():
    budget = {"token_budget": 1000, "sandbox_budget_s": 99.0}
    options = config(max_staleness=1, needs_signal=False, domains={"a": budget})
    first = Scheduler(options)
    tickets = begun(first, prompt("g"), prompt("h"))
    assert [ticket.group_id for ticket in tickets] == ["g", "g", "h", "h"]
    for ticket in tickets[:3]:
        first.sampled(ticket, 2.0, num_tokens=10, oldest_version=0, newest_version=0)
    for ticket in tickets[:3]:
        first.judged(ticket, 3.0, kind="scored", score=1.0, sandbox_s=0.5)
    assert first.next_batch(3.0) is not None
    accounts = json.loads(json.dumps(first.settled_accounts()))
    assert (accounts["a"]["tokens"], accounts["a"]["sandbox_s"]) == (20, 1.0)  # those of g, which trains

    second = Scheduler(options, first_version=1, accounts=accounts)
    kept, new = begun(second, prompt("h"))
    second.sampled(kept, 0.0, num_tokens=10, oldest_version=0, newest_version=0, was_kept=True)
    second.judged(kept, 0.0, kind="scored", score=1.0, sandbox_s=0.5)
    now = second.settled_accounts()["a"]
    assert now["token_s"] == accounts["a"]["token_s"]  # nobody sampled it in no time
    status = second.domain_status()["a"]
    assert (status.tokens, status.sandbox_s) == (first.domain_status()["a"].tokens, 1.5)
    second.sampled(new, 1.0, num_tokens=10, oldest_version=1, newest_version=1)
    assert second.domain_status()["a"].tokens == 40


def test_a_prompt_that_taught_something_goes_before_one_that_did_not_and_waits_for_neither():
    scheduler = Scheduler(config(lookahead=2))
    scheduler.offer([prompt("solved", past_rewards=(1.0,) * 8), prompt("open", past_rewards=(0.0, 1.0) * 4)], 0.0)
    assert {start.ticket.group_id for start in scheduler.decide(0.0).start} == {"open"}
