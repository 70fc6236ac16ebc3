"""Do 95 % intervals hold the truth 95 % of the time, and 5 % tests cry wolf 5 % of the time? Seeded simulations."""

import numpy as np
import pytest

from burnish.evals.statistics import interval, paired_p

NUM_TRIALS = 400


def layouts(rng, num_layouts):
    """Ten 0/1 tasks for each layout; a layout is easy or hard, on average 1/3."""
    chance_N = np.repeat(rng.beta(2, 4, num_layouts), 10)
    names = [str(index // 10) for index in range(len(chance_N))]
    return rng.binomial(1, chance_N), names


def coverage(draw, truth):
    rng = np.random.default_rng(0)
    intervals = [interval(*draw(rng), num_resamples=500) for _ in range(NUM_TRIALS)]
    return np.mean([i.low <= truth <= i.high for i in intervals])


@pytest.mark.parametrize(("chance", "n"), [(0.05, 60), (0.3, 200), (0.9, 30)])
def test_wilson_covers(chance, n):
    assert coverage(lambda rng: (rng.binomial(1, chance, n), ()), chance) == pytest.approx(0.95, abs=0.035)


@pytest.mark.parametrize("n", [10, 40])
def test_bootstrap_of_fractions_covers(n):
    assert coverage(lambda rng: (rng.beta(1, 3, n), ()), 0.25) == pytest.approx(0.95, abs=0.035)


@pytest.mark.parametrize("num_layouts", [8, 20])
def test_clustered_bootstrap_covers_new_layouts(num_layouts):
    assert coverage(lambda rng: layouts(rng, num_layouts), 1 / 3) == pytest.approx(0.95, abs=0.035)


def test_ignoring_layouts_covers_far_less_than_it_claims():
    assert coverage(lambda rng: (layouts(rng, 20)[0], ()), 1 / 3) < 0.87


def wolf_cries(num_layouts, use_clusters):
    """How often p < 0.05 where layouts shift at random and nothing changes on average."""
    rng = np.random.default_rng(0)
    names = [str(index // 10) for index in range(10 * num_layouts)] if use_clusters else ()
    hits = 0
    for _ in range(300):
        shift_N = np.repeat(rng.normal(0, 0.15, num_layouts), 10)
        before_N, noise_N = rng.uniform(0.4, 0.6, (2, len(shift_N)))
        hits += paired_p(before_N, np.clip(noise_N + shift_N, 0, 1), names, num_flips=1000) < 0.05
    return hits / 300


def test_clustered_sign_flips_hold_their_level():
    assert wolf_cries(12, use_clusters=True) == pytest.approx(0.05, abs=0.035)
    assert wolf_cries(12, use_clusters=False) > 0.2
