"""Several replies a task, against numbers worked by hand."""

import pytest

from burnish.evals.samples import averaged, measures, pass_rates, variances
from tests.evals.eval_runs import results_of

FOUR = results_of([[1, 1, 0, 0], [1, 1, 1, 1]])


def test_pass_at_k_and_pass_hat_k_average_the_unbiased_estimates_over_tasks():
    # of two right in four: one pair of six has none, one pair of six has both
    assert pass_rates(FOUR) == pytest.approx(
        {
            "pass@1": 0.75,
            "pass^1": 0.75,
            "pass@2": (5 / 6 + 1) / 2,
            "pass^2": (1 / 6 + 1) / 2,
            "pass@4": 1,
            "pass^4": 0.5,
        }
    )


def test_a_fraction_is_no_success():
    assert pass_rates(results_of([[0.9], [1]]))["pass@1"] == 0.5


def test_a_task_with_too_few_scored_replies_leaves_pass_at_k():
    assert pass_rates(results_of([[1, None], [0, 1]])) == pytest.approx(
        {"pass@1": 0.75, "pass^1": 0.75, "pass@2": 1, "pass^2": 0}
    )


def test_replies_to_one_task_become_one_result_with_their_mean():
    first, second = averaged(FOUR)
    assert (first.score, second.score) == (0.5, 1)
    assert averaged(results_of([[None, 0.4]]))[0].score == 0.4
    assert averaged(results_of([[None, None]]))[0].kind == "timeout"


def test_variance_is_split_into_between_tasks_and_within_them():
    # within: 1/3 and 0, mean 1/6; of the means 0.5 and 1: 1/8, less 1/6 / 4
    split = variances(FOUR)
    assert split is not None
    assert (split.within, split.between) == pytest.approx((1 / 6, 1 / 8 - 1 / 24))
    assert variances(results_of([[1], [0]])) is None


def test_parts_that_mean_the_same_everywhere_have_their_measures_name():
    results = [
        type(FOUR[0])(task_id=f"t/{n}", report_name="s", source="", score=0, kind="scored", reply="", parts=parts)
        for n, parts in enumerate([{"step_success": 0.5, "own": 1}, {"step_success": 1}, {}])
    ]
    found = measures(results)
    assert (found["step success rate"].mean, found["step success rate"].n) == (0.75, 2)
    assert (found["own"].mean, found["own"].n) == (1, 1)
