"""Pass, fail, or how many more: right on plain cases, and wrong no more often than may be, at whatever look."""

import math

import numpy as np
import pytest

from burnish.evals.noninferiority import judge, log_capital, share_of_alpha


def drawn(rng: np.random.Generator, n: int, before: float, after: float) -> tuple[list[float], list[float]]:
    """0/1 scores of two models on the same tasks; most tasks go alike."""
    luck = rng.random(n)
    return [float(u < before) for u in luck], [float(u < after) for u in luck]


def test_the_capital_of_two_bets_worked_by_hand() -> None:
    first_stake = math.sqrt(2 * math.log(2 / 0.05) / (2 * 0.25))  # of two planned, variance 1/4 before the first
    mean = (0.5 + 0.6) / 2
    variance = (0.25 + (0.6 - mean) ** 2) / 2
    second_stake = min(math.sqrt(2 * math.log(2 / 0.05) / (2 * variance)), 0.75 / 0.45)
    first = 1 + min(first_stake, 0.75 / 0.45) * (0.6 - 0.45)
    second = first * (1 + second_stake * (0.3 - 0.45))
    assert np.exp(log_capital(np.array([0.6, 0.3]), 0.45, alpha=0.05, num_planned=2)).tolist() == pytest.approx(
        [first, second], rel=1e-12
    )


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ([0.5] * 200, [0.5] * 200, "pass"),
        ([1.0] * 100, [0.0] * 100, "fail"),
        ([0.0, 1.0] * 50, [1.0, 1.0] * 50, "pass"),
        ([1.0, 0.0] * 3, [1.0, 0.0] * 3, "inconclusive"),
        ([], [], "inconclusive"),
    ],
)
def test_plain_cases(before: list[float], after: list[float], kind: str) -> None:
    assert judge(before, after, margin=0.1, alpha=0.05, num_planned=200).kind == kind


@pytest.mark.parametrize(("after", "wrong"), [(0.5, "pass"), (0.5, "fail")])
def test_at_the_margin_a_wrong_answer_at_any_look_is_as_rare_as_alpha(after: float, wrong: str) -> None:
    rng = np.random.default_rng(3)
    num_wrong = 0
    for _ in range(300):  # a hit at any of 150 looks counts
        answer = judge(*drawn(rng, 150, 0.6, after), margin=0.1, alpha=0.1, num_planned=150)
        num_wrong += answer.kind == wrong
    assert num_wrong <= 0.1 * 300 + 3 * math.sqrt(300 * 0.1 * 0.9)


def test_a_real_loss_is_found_and_equal_models_pass() -> None:
    rng = np.random.default_rng(4)
    lost = [judge(*drawn(rng, 200, 0.6, 0.3), margin=0.05, alpha=0.05, num_planned=200).kind for _ in range(50)]
    same = [judge(*drawn(rng, 200, 0.6, 0.6), margin=0.05, alpha=0.05, num_planned=200).kind for _ in range(50)]
    assert lost.count("fail") >= 45
    assert same.count("fail") == 0
    assert same.count("pass") >= 45


def test_as_many_more_as_it_asks_for_give_the_answer() -> None:
    before, after = [0.0, 1.0] * 15, [0.0, 1.0] * 14 + [1.0, 0.0]
    answer = judge(before, after, margin=0.1, alpha=0.05, num_planned=300)
    assert answer.kind == "inconclusive"
    again = 1 + math.ceil(answer.num_more / len(before))
    assert judge(before * again, after * again, margin=0.1, alpha=0.05, num_planned=300).kind == "pass"


def test_tasks_of_one_source_count_as_one() -> None:
    sources = [f"source {i % 10}" for i in range(200)]
    before, after = [0.5] * 200, [0.5] * 200
    assert judge(before, after, margin=0.1, alpha=0.05, num_planned=200).kind == "pass"
    answer = judge(before, after, sources, margin=0.1, alpha=0.05, num_planned=200)
    assert (answer.kind, answer.num_units) == ("inconclusive", 10)


def test_an_answer_stays_whatever_sources_a_later_look_adds() -> None:
    num = 30
    sources = [f"z {i}" for i in range(num)] + [f"a {i}" for i in range(num)]  # the later ones sort before
    before, after = [0.5] * num + [1.0] * num, [0.5] * num + [0.0] * num
    for looked in (num, 2 * num):
        answer = judge(before[:looked], after[:looked], sources[:looked], margin=0.3, alpha=0.05, num_planned=num)
        assert (answer.kind, answer.num_units) == ("pass", looked)


def test_the_parts_of_alpha_sum_to_it() -> None:
    parts = [share_of_alpha(0.05, num_suites=4, look=look) for look in range(1, 20_000)]
    assert 4 * sum(parts) == pytest.approx(0.05, rel=1e-3)
    assert 4 * sum(parts) < 0.05


@pytest.mark.parametrize("options", [(0.0, 0.05, 9), (0.1, 1.0, 9), (0.1, 0.05, 0)])
def test_what_is_out_of_range_is_refused(options: tuple[float, float, int]) -> None:
    margin, alpha, num_planned = options
    with pytest.raises(ValueError, match="lie between 0 and 1"):
        judge([1.0], [1.0], margin=margin, alpha=alpha, num_planned=num_planned)
