"""The simulator: worked by hand where it can be, deterministic, and never faster than its bound."""

from pathlib import Path

import pytest

from burnish.core.config import read_toml, validate
from burnish.core.errors import ConfigError
from burnish.plan.bounds import least_sampling_s
from burnish.plan.cluster import Cluster, Engines, read_cluster
from burnish.plan.compare import best, policies, splits
from burnish.plan.distributions import Empirical, LogNormal, Mixture, Part, Table
from burnish.plan.fleet import Fleet
from burnish.plan.outcome import Outcome
from burnish.plan.simulate import _Simulation, simulate
from burnish.rollout.scheduler_types import Ticket

EXAMPLE, DAY = (Path(__file__).parents[2] / f"recipes/cluster_{name}.toml" for name in ("small", "day"))


def cluster(**changes) -> Cluster:
    """Every member has 100 tokens at 0.01 s, a verdict takes 0.25 s, a training step 2 s, new weights 0.5 s."""
    scheduler = {
        "batch_groups": 2, "group_size": 4, "num_batches": 5, "needs_signal": False, **changes.pop("scheduler", {})
    }  # fmt: skip
    data = {
        "engines": {"num": 1, "slots": 16, "token_s": 0.01, "load_weights_s": 0.5},
        "learner": {"step_s": 2.0, "token_s": 1e-9},
        "num_sandboxes": 100,
        "domains": [
            {"name": "a", "lengths": {"median": 100.0}, "max_tokens": 100, "verify_s": {"median": 0.25}}
        ],
        "scheduler": scheduler,
        **changes,
    }  # fmt: skip
    return validate(Cluster, data, "test")


def test_a_synchronous_step_is_sampling_verdict_training_and_new_weights():
    outcome = simulate(cluster())
    assert outcome.step_s == pytest.approx(1.0 + 0.25 + 2.0 + 0.5, abs=1e-3)
    assert outcome.learner_busy == pytest.approx(5 * 2.0 / (5 * 3.25 + 4 * 0.5 + 0.5), abs=0.01)
    assert outcome.staleness == {0: 10}


def test_one_version_of_staleness_hides_sampling_behind_training():
    outcome = simulate(cluster(scheduler={"max_staleness": 1}))
    assert outcome.step_s == pytest.approx(2.0, abs=0.05)
    assert max(outcome.staleness) == 1


def test_one_process_that_does_both_takes_the_sum_of_sampling_and_training():
    alone = simulate(cluster(learner={"step_s": 2.0, "token_s": 1e-9, "shares_engines": True}))
    assert alone.step_s == pytest.approx(1.0 + 0.25 + 2.0 + 0.5, abs=1e-3)  # synchronous: in turn anyway
    shared = simulate(
        cluster(
            learner={"step_s": 2.0, "token_s": 1e-9, "shares_engines": True},
            scheduler={"max_staleness": 4, "num_batches": 40},
            engines={"num": 1, "slots": 16, "token_s": 0.02},
        )
    )
    assert shared.step_s == pytest.approx(2.0 + 1.0, rel=0.03)  # 16 members, two batches, in 2 s; verdicts are hidden
    assert shared.engines_busy + shared.learner_busy < 1
    assert 0.97 < shared.efficiency <= 1


def test_the_bound_of_a_synchronous_run_is_reached_where_all_begins_at_once():
    assert simulate(cluster()).efficiency == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize(
    ("lengths", "least_s"),
    [
        ([10, 10, 10, 10], 15.0),  # all places full: 1.5 s a token
        ([10, 4, 4, 4], 10.0),  # the longest alone, the others beside it
        ([10, 9, 9], 11.75),  # at most 2 (T - 5) tokens on one engine and 2 (T - 4.5) on the other
    ],
)
def test_the_least_time_of_a_batch_knows_that_long_members_leave_less_room_on_their_engine(lengths, least_s):
    engines = Engines(num=2, slots=2, token_s=1.0, token_s_per_member=0.5)
    assert least_sampling_s(lengths, engines) == pytest.approx(least_s, rel=1e-3)


def test_members_that_run_together_slow_each_other_down():
    fleet = Fleet(Engines(num=1, slots=4, token_s=1.0, token_s_per_member=0.5))
    fleet.start(Ticket("a", 0, 0), 10, 0, 0, 0.0)
    fleet.start(Ticket("b", 0, 0), 2, 0, 0, 4.0)  # a has 4 tokens; from now on a token takes 1.5 s
    at_s, _, ticket = fleet.next_end(0, 4.0)
    assert (at_s, ticket.group_id) == (7.0, "b")
    fleet.stop(ticket, 7.0)  # a has 6 tokens
    assert fleet.next_end(0, 7.0)[0] == pytest.approx(11.0)
    assert fleet.num_tokens == pytest.approx(8.0)


def test_standing_still_delays_by_exactly_its_time():
    fleet = Fleet(Engines(num=1, slots=4, token_s=1.0))
    fleet.start(Ticket("a", 0, 0), 10, 0, 0, 0.0)
    fleet.stand_still(4.0, 5.0)
    assert fleet.next_end(0, 4.0)[0] == pytest.approx(15.0)
    assert fleet.stop(Ticket("a", 0, 0), 12.0)[1] == 7


def test_a_member_that_goes_on_elsewhere_ends_when_its_last_token_is_there():
    fleet = Fleet(Engines(num=2, slots=4, token_s=1.0, kv_tokens=20))
    fleet.start(Ticket("a", 0, 0), 10, 0, 0, 0.0)
    assert fleet.stop(Ticket("a", 0, 0), 4.0)[1] == 4
    fleet.start(Ticket("b", 0, 0), 100, 0, 0, 4.0)
    index = fleet.start(Ticket("a", 0, 0), 10, 4, 0, 20.0)
    assert fleet.kv_used(20.0) == pytest.approx((16 + 4) / 40)
    ends = {number: fleet.next_end(number, 20.0) for number in (0, 1)}
    assert ends[index][::2] == (26.0, Ticket("a", 0, 0))
    assert ends[1 - index][::2] == (104.0, Ticket("b", 0, 0))
    fleet.stop(Ticket("a", 0, 0), 22.0)
    fleet.stop(Ticket("b", 0, 0), 22.0)
    assert fleet.kv_used(22.0) == 0


def test_a_member_that_goes_on_where_it_was_is_not_ended_by_its_first_start():
    fleet = Fleet(Engines(num=1, slots=4, token_s=1.0))
    fleet.start(Ticket("b", 0, 0), 100, 0, 0, 0.0)
    fleet.start(Ticket("a", 0, 0), 10, 0, 0, 0.0)
    fleet.stop(Ticket("a", 0, 0), 4.0)
    fleet.start(Ticket("a", 0, 0), 10, 4, 0, 20.0)
    assert fleet.next_end(0, 20.0)[0] == 26.0


def test_equal_seeds_give_equal_outcomes_and_others_do_not():
    given = read_cluster(EXAMPLE)
    one, two, other = (simulate(given.model_copy(update={"seed": seed})) for seed in (1, 1, 2))
    assert one == two != other


@pytest.mark.parametrize("staleness", [0, 1, 4])
def test_nothing_is_faster_than_the_bound(staleness):
    given = read_cluster(EXAMPLE)
    scheduler = given.scheduler.model_copy(update={"max_staleness": staleness, "num_batches": 6})
    assert 0.3 < simulate(given.model_copy(update={"scheduler": scheduler})).efficiency <= 1


def test_policies_differ_as_their_bias_says():
    given = validate(Cluster, read_toml(EXAMPLE), "test")
    scheduler = given.scheduler.model_copy(update={"num_batches": 8})
    outcomes = {
        variant.name: variant.outcome for variant in policies(given.model_copy(update={"scheduler": scheduler}))
    }
    assert outcomes["synchronous"].staleness.keys() == {0}
    assert outcomes["synchronous"].tokens_per_s < outcomes["admission"].tokens_per_s
    assert outcomes["ready, drop"].mean_length_trained < outcomes["admission"].mean_length_trained
    assert outcomes["admission, 2 extra members"].mean_length_trained < outcomes["admission"].mean_length_trained
    assert outcomes["due, restart"].wasted_share > outcomes["admission"].wasted_share


def test_the_best_split_is_where_the_time_goes():
    slow_learner = cluster(
        engines={"num": 6, "slots": 8, "token_s": 0.01}, learner={"num": 2, "token_s": 0.02},
        scheduler={"max_staleness": 1},
    )  # fmt: skip
    assert best(list(splits(slow_learner))).name == "7 learner, 1 engines"


def test_ten_thousand_places_and_three_hundred_domains_are_kept_busy_at_few_events_a_rollout():
    given = read_cluster(DAY)
    assert given.engines.num * given.engines.slots >= 10_000
    assert given.domains[0].copies == 300
    simulation = _Simulation(given.model_copy(update={"hours": 0.2}), None)
    outcome = simulation.run()
    assert outcome.engines_busy > 0.9  # what runs at the end is counted up to its engine's last event
    assert outcome.num_rollouts + len(simulation._fleet.runs) > 10_240
    # an end is foreseen once for all that start together, and when one ends; a verdict is one event more
    assert simulation._num_events < 256 + 2.1 * outcome.num_rollouts


def test_hours_end_a_simulation_that_has_no_last_batch():
    outcome = simulate(cluster(hours=0.02, scheduler={"num_batches": None}))
    assert outcome.end_s == 72.0
    assert outcome.num_batches == 19  # the first after 1.25 s, then one each 3.75 s


def test_a_simulation_whose_last_batch_comes_before_its_hours_ends_with_it():
    assert simulate(cluster(hours=1.0)) == simulate(cluster())


def test_members_that_were_cut_do_not_delay_the_end():
    lengths = {"parts": [{"share": 0.8, "of": {"median": 10.0}}, {"share": 0.2, "of": {"median": 9000.0}}]}
    domain = {"name": "a", "lengths": lengths, "max_tokens": 9000, "alike": 0.0, "verify_s": {"median": 0.25}}
    scheduler = {"batch_groups": 2, "group_size": 2, "extra_members": 6, "num_batches": 2}
    outcome = simulate(cluster(domains=[domain], scheduler=scheduler))
    assert outcome.end_s == pytest.approx(2 * (0.1 + 0.25 + 2.0 + 0.5), abs=1e-3)


MEASURED = {"answers": [{"verify_s": 0.5, "score": 1.0}, {"verify_s": 2.0, "score": 0.0}],
            "members": [[(100, 0)], [(100, 1)], [(100, 0)], [(200, 0)]]}  # fmt: skip


def measured(group, *, num_sandboxes=100, **load) -> Outcome:
    """One batch of one such group; nothing takes time but tokens and verdicts."""
    domain = {"name": "a", "groups": [group], "max_tokens": 200, **load}
    scheduler = {"batch_groups": 1, "num_batches": 1}
    engines = {"num": 1, "slots": 16, "token_s": 0.01}
    learner = {"token_s": 1e-9}
    return simulate(cluster(
        domains=[domain], scheduler=scheduler, num_sandboxes=num_sandboxes, engines=engines, learner=learner,
    ))  # fmt: skip


@pytest.mark.parametrize(
    ("num_sandboxes", "keeps_verdicts", "end_s", "sandbox_s"),
    [
        (100, False, 3.0, 3.0),  # both answers after 1 s; the last member pays again, from 2 s to 2.5 s
        (100, True, 3.0, 2.5),  # the last member's answer was kept
        (1, True, 3.5, 2.5),  # one after the other, in whichever order
    ],
)
def test_equal_answers_share_a_verdict(num_sandboxes, keeps_verdicts, end_s, sandbox_s):
    outcome = measured(MEASURED, num_sandboxes=num_sandboxes, keeps_verdicts=keeps_verdicts)
    assert outcome.end_s == pytest.approx(end_s, abs=1e-3)
    assert outcome.sandboxes_busy * outcome.end_s * num_sandboxes == pytest.approx(sandbox_s)
    assert outcome.bound_s == pytest.approx(3.0, abs=1e-3)
    assert (outcome.num_rollouts, outcome.tokens_trained) == (4, 500)


def test_an_answer_that_is_asked_for_while_an_equal_one_is_judged_takes_no_sandbox():
    joined = {"answers": [{"verify_s": 5.0, "score": 1.0}, {"verify_s": 5.0, "score": 0.0}],
              "members": [[(100, 0)], [(200, 0)], [(100, 1)], [(200, 1)]]}  # fmt: skip
    outcome = measured(joined, num_sandboxes=2)
    assert outcome.end_s == pytest.approx(6.0, abs=1e-3)
    assert outcome.sandboxes_busy == pytest.approx(10 / 12, abs=1e-3)


def test_an_attempt_that_failed_in_the_run_fails_in_its_place_and_is_tried_again():
    answers = [*MEASURED["answers"], {"verify_s": 4.0, "failure": "timeout"}]
    outcome = measured({"answers": answers, "members": [[(100, 1)], [(100, 0)], [(100, 2), (150, 0)], [(100, 0)]]})
    assert outcome.end_s == pytest.approx(1.0 + 4.0 + 1.5 + 0.5, abs=1e-3)
    assert (outcome.num_rollouts, outcome.num_groups_trained) == (5, 1)


def test_measured_groups_are_dealt_so_that_each_comes_as_often_as_any_other():
    groups = [
        {"answers": MEASURED["answers"], "members": [[(tokens, 0)], [(tokens, 1)]] * 2} for tokens in (10, 20, 30)
    ]
    domain = {"name": "a", "groups": groups, "max_tokens": 30}
    outcome = simulate(cluster(domains=[domain], scheduler={"batch_groups": 3, "num_batches": 2}))
    assert outcome.tokens_trained == 2 * 4 * (10 + 20 + 30)


@pytest.mark.parametrize(
    ("load", "message"),
    [
        ({}, "either lengths"),
        ({"groups": [MEASURED], "lengths": {"median": 1.0}}, "either lengths"),
        ({"groups": [MEASURED], "alike": 0.5}, "alike would do nothing beside groups"),
        ({"lengths": {"median": 1.0}, "keeps_verdicts": True}, "only groups have"),
        ({"groups": [{**MEASURED, "members": [[(1, 2)]]}]}, "answer 2, and there are 2"),
    ],
)
def test_a_domain_is_described_in_one_way(load, message):
    with pytest.raises(ConfigError, match=message):
        cluster(domains=[{"name": "a", "max_tokens": 100, **load}])


def test_a_cluster_without_an_end_is_refused():
    with pytest.raises(ConfigError, match="without an end: set hours"):
        cluster(scheduler={"num_batches": None})


@pytest.mark.parametrize(
    ("distribution", "mean"),
    [
        (LogNormal(median=3.0, sigma=0.5), 3.0 * 2.718281828 ** (0.5**2 / 2)),
        (Empirical(values=[1.0, 2.0, 6.0]), 3.0),
        (
            Mixture(parts=[Part(share=0.25, of=Empirical(values=[8.0])), Part(share=0.75, of=LogNormal(median=4.0))]),
            5.0,
        ),
    ],
)
def test_a_table_has_its_distributions_mean(distribution, mean):
    assert Table(distribution).mean == pytest.approx(mean, rel=2e-3)


def test_shares_that_do_not_sum_to_one_are_refused():
    with pytest.raises(ValueError, match="of a mixture sum to 1"):
        Mixture(parts=[Part(share=0.5, of=Empirical(values=[1.0]))])
