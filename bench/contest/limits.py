"""What this processor does at most, measured by torch's best cases: the sides' limits.

Arithmetic is products of 1536 x 1536 in the precision of the contest; memory is the sum of 256 MiB.
"""

from collections.abc import Callable
from typing import Any

import torch

from bench.contest.stopwatch import Stopwatch, shape_of_work

NUM_TRIES = 12


def best_s(run: Callable[[], object]) -> float:
    """Seconds of the fastest of some tries."""
    seconds: list[float] = []
    for _ in range(NUM_TRIES):
        watch = Stopwatch()
        watch.time("", run)
        seconds.append(watch.wall_s[""])
    return min(seconds)


def main(shape: dict[str, Any]) -> None:
    """Measure both."""
    torch.set_num_threads(shape["threads"])
    a_N_N = torch.randn(1536, 1536).to(getattr(torch, shape["dtype"]))
    x_N = torch.ones(64 << 20)
    Stopwatch().report(
        {"torch": torch.__version__},
        gflops=2 * 1536**3 / best_s(lambda: a_N_N @ a_N_N) / 1e9,
        gbytes=x_N.numel() * 4 / best_s(x_N.sum) / 1e9,
    )


if __name__ == "__main__":
    main(shape_of_work())
