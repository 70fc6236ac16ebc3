import json
import math

import numpy as np
import pytest

from burnish.evals.statistics import (
    bootstrap,
    difference,
    holm,
    interval,
    mcnemar,
    paired_p,
    pass_at_k,
    pass_hat_k,
    sign_flip,
    unit_totals,
    wilson,
)

TEN_LAYOUTS = [f"layout-{index // 20}" for index in range(200)]


@pytest.mark.parametrize(
    ("num_right", "n", "low", "high"),
    [
        (0, 10, 0.0, 0.277533),  # z^2 / (n + z^2)
        (10, 10, 0.722467, 1.0),
        (5, 10, 0.236593, 0.763407),  # 0.5 -+ (z/2) / sqrt(n + z^2)
        (1, 1, 0.206549, 1.0),
    ],
)
def test_wilson_equals_its_closed_form(num_right, n, low, high):
    assert wilson(num_right / n, n) == pytest.approx((low, high), abs=1e-6)


def test_wilson_equals_newcombes_worked_example():
    # Statistics in Medicine 17 (1998) 857-872, table 1, method 3: 81 of 263 gives 0.2553 to 0.3662
    assert wilson(81 / 263, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)


def test_interval_of_lone_binary_scores_is_wilson():
    assert interval([1, 0, 0, 1, 1, 0, 0, 0, 1, 1])[1:3] == wilson(0.5, 10)


def test_bootstrap_agrees_with_students_interval_on_many_units():
    scores_N = np.random.default_rng(3).beta(2, 5, 400)
    half = 1.96593 * scores_N.std(ddof=1) / math.sqrt(400)
    low, high = bootstrap(scores_N, np.ones(400))
    assert (low, high) == pytest.approx((scores_N.mean() - half, scores_N.mean() + half), abs=0.001)


@pytest.mark.parametrize(("n", "student"), [(8, 2.364624), (12, 2.200985)])
def test_bootstrap_of_few_units_is_as_wide_as_students_interval(n, student):
    scores_N = np.linspace(0.2, 0.8, n)
    low, high = bootstrap(scores_N, np.ones(n))
    assert high - low == pytest.approx(2 * student * scores_N.std(ddof=1) / math.sqrt(n), rel=0.04)


def test_bootstrap_of_unequal_clusters_weighs_tasks_equally():
    clusters = ["big"] * 20 + [f"small-{index}" for index in range(10)]
    assert interval([0.9] * 20 + [0.3] * 10, clusters).mean == pytest.approx((20 * 0.9 + 10 * 0.3) / 30)


def test_tasks_that_repeat_their_cluster_tell_no_more_than_the_clusters():
    per_layout = np.random.default_rng(0).random(10)
    once = interval(per_layout.tolist())
    repeated = interval(np.repeat(per_layout, 20).tolist(), TEN_LAYOUTS)
    assert repeated[:3] == pytest.approx(once[:3])
    assert repeated.n == 200


def test_singleton_clusters_are_the_plain_bootstrap():
    scores = np.random.default_rng(0).random(50).tolist()
    assert interval(scores, [str(index) for index in range(50)]) == interval(scores)


def test_fewer_than_eight_clusters_are_taken_as_fixed():
    scores = np.random.default_rng(0).random(70).tolist()
    assert interval(scores, [f"layout-{index // 10}" for index in range(70)]) == interval(scores)
    assert len(unit_totals(np.ones(70), [f"layout-{index // 10}" for index in range(70)])[0]) == 70
    assert len(unit_totals(np.ones(80), [f"layout-{index // 10}" for index in range(80)])[0]) == 8


@pytest.mark.parametrize("clusters", [(), TEN_LAYOUTS])
def test_the_order_of_tasks_does_not_matter(clusters):
    rng = np.random.default_rng(1)
    before_N, after_N = rng.random((2, 200))
    order = rng.permutation(200)
    shuffled = [clusters[index] for index in order] if clusters else ()
    assert interval(before_N[order], shuffled)[:3] == pytest.approx(interval(before_N, clusters)[:3])
    assert paired_p(before_N[order], after_N[order], shuffled) == paired_p(before_N, after_N, clusters)


def test_equal_seeds_give_equal_intervals_and_others_differ():
    scores = np.random.default_rng(1).random(30).tolist()
    assert interval(scores, seed=4) == interval(scores, seed=4) != interval(scores, seed=5)


@pytest.mark.parametrize("score", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("clusters", [(), TEN_LAYOUTS])
def test_scores_that_do_not_differ_still_have_a_width(score, clusters):
    got = interval([score] * 200, clusters)
    assert got.low <= got.mean == score <= got.high
    assert got[1:3] == pytest.approx(wilson(score, 10 if clusters else 200))


def test_a_constant_gain_still_has_a_width():
    got = difference([0.2] * 50, [0.7] * 50)
    assert got.mean == pytest.approx(0.5)
    assert -1 <= got.low < 0.5 < got.high <= 1


@pytest.mark.parametrize("scores", [[float("nan"), 1.0], [1.5], [-0.1], [], [[0.1]]])
def test_what_is_no_score_is_rejected(scores):
    with pytest.raises(ValueError, match="score"):
        interval(scores)


def test_pairs_and_clusters_must_match():
    with pytest.raises(ValueError, match="2 before and 1 after"):
        paired_p([0, 1], [1])
    with pytest.raises(ValueError, match="1 clusters for 2 tasks"):
        paired_p([0, 1], [1, 0], ["a"])


@pytest.mark.parametrize(
    ("num_better", "num_worse", "p"),
    [
        (0, 0, 1.0),
        (1, 0, 1.0),
        (6, 0, 2 / 64),
        (8, 1, 2 * 10 / 512),
        (9, 3, 2 * (1 + 12 + 66 + 220) / 4096),
        (5, 5, 1.0),
    ],
)
def test_mcnemar_equals_the_binomial_tail(num_better, num_worse, p):
    assert mcnemar(num_better=num_better, num_worse=num_worse) == pytest.approx(p)
    before = [0] * num_better + [1] * num_worse + [1, 1, 0]
    after = [1] * num_better + [0] * num_worse + [1, 1, 0]
    assert paired_p(before, after) == pytest.approx(p)


@pytest.mark.parametrize(
    ("differences", "p"),
    [
        ([0.1, 0.2, 0.4], 2 / 8),  # only all-plus and all-minus reach 0.7
        ([0.1, 0.2, -0.4], 8 / 8),  # |sum| is 0.1: every pattern of signs is at least as far
        ([-0.1, 0.2, 0.4], 4 / 8),  # 0.5 and 0.7, both ways
        ([0.2, 0.4, 0.3], 2 / 8),  # in this order the sum rounds up: noise must not break ties
        ([0.0, 0.0], 1.0),
        ([0.5], 1.0),
    ],
)
def test_sign_flip_lists_all_patterns_of_few_units(differences, p):
    assert sign_flip(np.array(differences)) == pytest.approx(p)


def test_drawn_sign_flips_agree_with_mcnemar():
    differences_U = np.array([1.0] * 22 + [-1.0] * 9)
    assert sign_flip(differences_U) == pytest.approx(mcnemar(num_better=22, num_worse=9), abs=0.004)


def test_p_is_never_zero():
    assert paired_p([0.1] * 200, [0.9] * 200) == pytest.approx(1 / 20_001)
    assert 0 < paired_p([0] * 200, [1] * 200) < 1e-50
    assert paired_p([0] * 2000, [1] * 2000) > 0


def test_swapping_before_and_after_keeps_p_and_turns_the_difference():
    before_N, after_N = np.random.default_rng(2).random((2, 60))
    assert paired_p(before_N, after_N) == paired_p(after_N, before_N)
    assert difference(before_N, after_N).mean == -difference(after_N, before_N).mean


def test_nothing_in_common_and_nothing_changed_are_no_evidence():
    assert paired_p([], []) == 1.0
    assert paired_p([0.3] * 30, [0.3] * 30) == 1.0


def test_a_gain_in_one_layout_is_weaker_evidence_than_the_same_gain_everywhere():
    before = [0] * 200
    one_layout = [int(index < 20) for index in range(200)]
    spread = [int(index % 10 == 0) for index in range(200)]
    assert paired_p(before, one_layout) == paired_p(before, spread) < 1e-5
    assert paired_p(before, one_layout, TEN_LAYOUTS) == 1.0
    assert paired_p(before, spread, TEN_LAYOUTS) == pytest.approx(2 / 2**10)


@pytest.mark.parametrize(
    ("p_values", "adjusted"),
    [
        ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]),  # 3 x 0.01, then 2 x 0.03, then not below it
        ([0.5, 0.6], [1.0, 1.0]),
        ([0.02], [0.02]),
        ([], []),
    ],
)
def test_holm(p_values, adjusted):
    assert holm(p_values) == pytest.approx(adjusted)


def test_pass_at_k_and_pass_hat_k():
    assert pass_at_k(10, 3, 1) == pytest.approx(0.3)
    assert pass_at_k(10, 3, 5) == pytest.approx(0.916667, abs=1e-6)
    assert pass_hat_k(10, 3, 2) == pytest.approx(0.066667, abs=1e-6)
    assert (pass_at_k(4, 4, 2), pass_hat_k(4, 0, 2), pass_at_k(4, 3, 2)) == (1.0, 0.0, 1.0)


def test_results_are_plain_floats_that_json_can_write():
    scores = np.random.default_rng(0).random(20)
    json.dumps([*interval(scores), paired_p(scores, scores[::-1]), *difference(scores, scores[::-1])])
