"""Two models on the same suites: who is better where, and how sure that is."""

import math

import pytest

from burnish.core.errors import ConfigError
from burnish.evals.comparison import compare_runs, detectable, flips, num_for
from burnish.evals.samples import averaged
from tests.evals.eval_runs import results_of, run_of


def ones(num, total):
    return [[1]] * num + [[0]] * (total - num)


def test_the_better_model_is_named_with_its_p_and_the_tasks_that_flipped():
    (one,) = compare_runs({"s": run_of(ones(2, 20))}, {"s": run_of(ones(12, 20))})
    assert (one.better, one.comparison.difference.mean, len(one.flips)) == ("B", 0.5, 10)
    assert one.adjusted_p == 2 / 2**10  # McNemar: ten better, none worse


def test_p_is_adjusted_over_the_suites_that_are_compared():
    first = {name: run_of(ones(2, 20), suite=name) for name in "ab"}
    second = {"a": run_of(ones(8, 20), suite="a"), "b": run_of(ones(2, 20), suite="b")}
    a, b = compare_runs(first, second)
    assert a.adjusted_p == pytest.approx(2 * 2 / 2**6)
    assert (a.better, b.better) == ("", "")  # 0.03 alone, 0.06 among two


@pytest.mark.parametrize("other", [{"suite_hash": "x" * 64}, {"harness": "x" * 64}])
def test_other_tasks_or_another_judge_are_not_compared(other):
    with pytest.raises(ConfigError, match="evaluate both again"):
        compare_runs({"s": run_of([[1]])}, {"s": run_of([[1]], **other)})


def test_models_without_a_common_suite_are_not_compared():
    with pytest.raises(ConfigError, match="no common suite: the first has a, the second b"):
        compare_runs({"a": run_of([[1]], suite="a")}, {"b": run_of([[1]], suite="b")})


def test_flips_are_those_that_cross_a_half_and_losses_come_first():
    before, after = (averaged(results_of(scores)) for scores in ([[1, 1], [0, 0], [1, 0]], [[0, 0], [1, 1], [0, 0]]))
    assert [(flip.task_id, flip.after - flip.before) for flip in flips(before, after)] == [("s/0", -1), ("s/1", 1)]


def test_the_detectable_difference_is_the_rule_for_paired_tasks():
    # 100 tasks, 20 differ, half each way: s² is 20/99, so (1.96 + 0.84) sqrt(0.2020/100)
    before, after = results_of(ones(50, 100)), results_of([[0]] * 10 + ones(50, 90))
    assert detectable(before, after) == pytest.approx(2.8016 * math.sqrt(20 / 99 / 100), rel=1e-3)


def test_the_number_of_tasks_for_a_difference_is_the_published_rule():
    assert num_for(0.03, 0.15) == 1309  # (1.96 + 0.84)² 0.15 / 0.03²
