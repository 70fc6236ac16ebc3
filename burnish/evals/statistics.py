"""Intervals and paired tests for evaluation scores, as pure functions.

Scores lie in [0, 1]. `clusters` names what each task shares with others (a layout, a family); the
*unit* of every method is the cluster where there are at least `MIN_CLUSTERS`, else the task.

- Interval: Wilson (https://doi.org/10.1080/01621459.1927.10502953) for 0/1 tasks; otherwise the
  bootstrap of the mean over units (Miller, https://arxiv.org/abs/2411.00640, on clustered questions),
  its percentiles stretched for small samples (Hesterberg, https://arxiv.org/abs/1411.5279).
- Test: exact McNemar for 0/1 tasks; otherwise sign flips of the units' paired differences,
  with p = (b + 1) / (m + 1) if drawn (Phipson & Smyth, https://arxiv.org/abs/1603.05766).

Few clusters: the signs of 7 clusters or fewer cannot give p below 2/2**7 = 0.016, whatever happened, and
an interval over 3 layouts spans most of the scale. Below 8 the sources are therefore taken as fixed
and the tasks as the sample. The claim is then about new tasks from *these* sources; for new sources such an
interval is too narrow (tests/evals/test_coverage.py: some 80 % instead of 95 %).

Covered: seeded, order of tasks irrelevant, p never 0. Not covered: several samples a task (average
them first), weights.
"""

import math
import sys
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from burnish.core.interval import Interval

MIN_CLUSTERS = 8
NUM_RESAMPLES = 10_000
NUM_FLIPS = 20_000
MAX_EXACT_UNITS = 14
CHUNK = 1000
Z_95 = NormalDist().inv_cdf(0.975)

Floats = NDArray[np.float64]


def interval(
    scores: Sequence[float], clusters: Sequence[str] = (), *, seed: int = 0, num_resamples: int = NUM_RESAMPLES
) -> Interval:
    """The mean and its 95 % interval: Wilson for 0/1 tasks without clusters, otherwise the bootstrap."""
    scores_N = _checked(scores)
    sums_U, sizes_U = unit_totals(scores_N, clusters)
    mean, n = float(scores_N.mean()), len(scores_N)
    by_task = len(sums_U) == n
    if by_task and _is_binary(scores_N):
        return _interval(mean, wilson(mean, n), n)
    if np.ptp(sums_U / sizes_U) == 0:
        # Units that do not differ leave nothing to resample. A score in [0, 1] varies at most as much
        # as a 0/1 score of the same mean, so Wilson over the units is the cautious answer.
        return _interval(mean, wilson(mean, len(sums_U)), n)
    low, high = bootstrap(sums_U, sizes_U, seed=seed, num_resamples=num_resamples)
    return _interval(mean, (max(0.0, low), min(1.0, high)), n)


def difference(
    before: Sequence[float], after: Sequence[float], clusters: Sequence[str] = (), *, seed: int = 0
) -> Interval:
    """The mean paired difference and its 95 % bootstrap interval, over the same units as `paired_p`."""
    differences_N = _differences(before, after)
    sums_U, sizes_U = unit_totals(differences_N, clusters)
    mean, n = float(differences_N.mean()), len(differences_N)
    low, high = bootstrap(sums_U, sizes_U, seed=seed) if np.ptp(sums_U / sizes_U) else _no_spread(mean, len(sums_U))
    return _interval(mean, (max(-1.0, low), min(1.0, high)), n)


def wilson(mean: float, n: int) -> tuple[float, float]:
    """Wilson's 95 % score interval for a share `mean` of `n` tasks."""
    shrink = 1 + Z_95**2 / n
    center = (mean + Z_95**2 / (2 * n)) / shrink
    half = Z_95 / shrink * math.sqrt(mean * (1 - mean) / n + Z_95**2 / (4 * n**2))
    return max(0.0, center - half), min(1.0, center + half)


def bootstrap(
    sums_U: Floats, sizes_U: Floats, *, seed: int = 0, num_resamples: int = NUM_RESAMPLES
) -> tuple[float, float]:
    """95 % bounds of the mean: resample units, take percentiles, stretch them for few units."""
    num_units = len(sums_U)
    mean = float(sums_U.sum() / sizes_U.sum())
    order_U = np.lexsort((sums_U, sizes_U))
    means_R = _resampled_means(sums_U[order_U], sizes_U[order_U], num_resamples, np.random.default_rng(seed))
    low, high = np.percentile(means_R, [2.5, 97.5]) - mean
    stretch = _student_95(num_units - 1) / Z_95 * math.sqrt(num_units / (num_units - 1))
    return float(mean + stretch * low), float(mean + stretch * high)


def paired_p(
    before: Sequence[float],
    after: Sequence[float],
    clusters: Sequence[str] = (),
    *,
    seed: int = 0,
    num_flips: int = NUM_FLIPS,
) -> float:
    """Two-sided p that the same tasks score alike before and after; 1 if there are none, never 0."""
    if len(before) == len(after) == 0:
        return 1.0
    differences_N = _differences(before, after)
    sums_U, _ = unit_totals(differences_N, clusters)
    if len(sums_U) == len(differences_N) and _is_binary(np.abs(differences_N)):
        return mcnemar(num_better=int((differences_N > 0).sum()), num_worse=int((differences_N < 0).sum()))
    return sign_flip(sums_U, seed=seed, num_flips=num_flips)


def mcnemar(*, num_better: int, num_worse: int) -> float:
    """McNemar's exact test: of the tasks that changed, are better and worse a fair coin?"""
    n = num_better + num_worse
    tail = sum(math.comb(n, k) for k in range(min(num_better, num_worse) + 1))
    return max(sys.float_info.min, min(1.0, 2 * tail / 2**n))


def sign_flip(differences_U: Floats, *, seed: int = 0, num_flips: int = NUM_FLIPS) -> float:
    """Two-sided permutation test: how often do random signs give a sum as far from 0?

    All sign patterns are listed where there are few, else `num_flips` are drawn: (b + 1) / (m + 1).
    """
    sizes_U = np.sort(np.abs(differences_U[differences_U != 0]))
    observed = abs(float(differences_U.sum())) - 1e-9
    if len(sizes_U) <= MAX_EXACT_UNITS:
        return float((_all_flipped_sums(sizes_U) >= observed).mean())
    rng = np.random.default_rng(seed)
    chunks = [rng.choice((-1.0, 1.0), (rows, len(sizes_U))) @ sizes_U for rows in _chunks(num_flips)]
    num_as_far = sum(int((np.abs(sums) >= observed).sum()) for sums in chunks)
    return (num_as_far + 1) / (num_flips + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment: comparing each with alpha keeps the family's error at alpha."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def pass_at_k(num_samples: int, num_correct: int, k: int) -> float:
    """Chance that at least one of `k` samples is correct, unbiased (https://arxiv.org/abs/2107.03374, eq. 1)."""
    return 1 - math.comb(num_samples - num_correct, k) / math.comb(num_samples, k)


def pass_hat_k(num_samples: int, num_correct: int, k: int) -> float:
    """Chance that all of `k` samples are correct (https://arxiv.org/abs/2406.12045)."""
    return math.comb(num_correct, k) / math.comb(num_samples, k)


def unit_totals(values_N: Floats, clusters: Sequence[str]) -> tuple[Floats, Floats]:
    """Sum and number of tasks of each unit: the clusters if there are enough, else each task by itself."""
    if clusters and len(clusters) != len(values_N):
        raise ValueError(f"one cluster a task: got {len(clusters)} clusters for {len(values_N)} tasks")
    names, index_N = np.unique(np.asarray(clusters, dtype=str), return_inverse=True)
    if len(names) < MIN_CLUSTERS:
        return values_N, np.ones_like(values_N)
    sums_U, sizes_U = np.zeros(len(names)), np.zeros(len(names))
    np.add.at(sums_U, index_N, values_N)
    np.add.at(sizes_U, index_N, 1.0)
    return sums_U, sizes_U


def _resampled_means(sums_U: Floats, sizes_U: Floats, num_resamples: int, rng: np.random.Generator) -> Floats:
    num_units = len(sums_U)
    share_U = np.full(num_units, 1 / num_units)
    means: list[Floats] = []
    for rows in _chunks(num_resamples):
        counts = rng.multinomial(num_units, share_U, rows)
        means.append((counts @ sums_U) / (counts @ sizes_U))
    return np.concatenate(means)


def _chunks(total: int) -> list[int]:
    """Split so that a table of draws stays small."""
    return [min(CHUNK, total - start) for start in range(0, total, CHUNK)]


def _all_flipped_sums(sizes_U: Floats) -> Floats:
    """The distance from 0 of the sum under each pattern of signs."""
    sums = np.zeros(1)
    for size in sizes_U:
        sums = np.concatenate([sums - size, sums + size])
    return np.abs(sums)


def _student_95(freedom: int) -> float:
    """Student's 97.5 % quantile by the Cornish-Fisher series; the exact value to 1 % from 4 degrees on."""
    z = Z_95
    first = (z**3 + z) / (4 * freedom)
    second = (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    return z + first + second + third


def _no_spread(mean: float, num_units: int) -> tuple[float, float]:
    """A difference in [-1, 1] is twice a share, less 1."""
    low, high = wilson((mean + 1) / 2, num_units)
    return 2 * low - 1, 2 * high - 1


def _interval(mean: float, bounds: tuple[float, float], n: int) -> Interval:
    """Rounding may push a bound past the mean by one unit in the last place; keep low <= mean <= high."""
    return Interval(mean=mean, low=min(bounds[0], mean), high=max(bounds[1], mean), n=n)


def _differences(before: Sequence[float], after: Sequence[float]) -> Floats:
    if len(before) != len(after):
        raise ValueError(f"a paired test needs the same tasks: got {len(before)} before and {len(after)} after")
    return _checked(after) - _checked(before)


def _checked(scores: Sequence[float]) -> Floats:
    scores_N = np.asarray(scores, dtype=np.float64)
    if scores_N.ndim != 1 or len(scores_N) == 0:
        raise ValueError(f"expected at least one score in a flat sequence, got shape {scores_N.shape}")
    outside_N = ~((scores_N >= 0) & (scores_N <= 1))
    if outside_N.any():
        raise ValueError(f"scores lie in [0, 1]; got {scores_N[outside_N][0]} at index {outside_N.argmax()}")
    return scores_N


def _is_binary(values_N: Floats) -> bool:
    return bool(np.isin(values_N, (0.0, 1.0)).all())
