"""How near the scheduler comes to the time that no scheduler can beat, and what a decision costs.

Three long-tail shapes from published figures (the numbers that are not published are ours and said so):

* reasoning: log-normal with the 99th percentile at 10 times the median (median about 500 tokens, p99 about
  5000: https://jiahuanglin.xyz/all_lessons/RL/lessons/22b_longtail_rollouts.html), so sigma = ln 10 / 2.326 =
  0.99;
* heavy: about 5 % of the rollouts hold 30 to 50 % of the tokens (same source); of a log-normal the top 5 % hold
  Phi(sigma - 1.645), which is 40 % at sigma = 1.39;
* capped: replies of up to 65,536 tokens, where the last 10 % of the requests to finish take half of a
  synchronous rollout's time (Seer, https://arxiv.org/abs/2511.14617, workload Moonlight), so the 90th
  percentile is at half the limit; sigma = 1 is ours.

The order of batches is that of stage `rl` ("due"), or another by `--order`. Runs are so long (`--batches`) that filling
the engines at first and running them empty at last, which no steady state has, is a small share.

Where staleness is 0 the bound knows every length and gives the longest member an engine of its own from the start. How
much of what is missing is that knowledge: the sampling of a batch is also measured for a scheduler that is told all
lengths and begins the longest first, on the engine that is emptiest.

Run: `python -m bench.scheduler`, with `--day` for a day of 256 engines as well.
"""

import argparse
import random
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from burnish.core.config import validate
from burnish.plan.bounds import least_sampling_s
from burnish.plan.cluster import Cluster, Engines
from burnish.plan.distributions import Table, alike
from burnish.plan.fleet import Fleet
from burnish.plan.outcome import Outcome
from burnish.plan.simulate import simulate
from burnish.rollout.scheduler_types import Ticket

SHAPES: dict[str, dict[str, Any]] = {
    "reasoning": {"lengths": {"median": 500.0, "sigma": 0.99}, "max_tokens": 16_384},
    "heavy": {"lengths": {"median": 500.0, "sigma": 1.39}, "max_tokens": 16_384},
    "capped": {"lengths": {"median": 9_095.0, "sigma": 1.0}, "max_tokens": 65_536},
}
LEARNERS = {"engines are the bottleneck": 0.6, "balanced": 0.95, "the learner is the bottleneck": 1.5}
"""Time of training by time of sampling."""
NUM_SYNCHRONOUS = 20
GROUP_SIZE = 8


def cluster(shape: str, learner_share: float, staleness: int, *, num_batches: int, order: str) -> Cluster:
    """8 engines of 16 slots; the learner is so fast that a batch takes that share of its sampling."""
    engines = {"num": 8, "slots": 16, "token_s": 0.02, "token_s_per_member": 0.0004, "load_weights_s": 1.0}
    rate = engines["num"] * engines["slots"] / (engines["token_s"] + 15 * engines["token_s_per_member"])
    domain = {"name": shape, "verify_s": {"median": 1.0, "sigma": 1.0}, **SHAPES[shape]}
    scheduler = {
        "batch_groups": 32,
        "group_size": GROUP_SIZE,
        "num_batches": num_batches,
        "max_staleness": staleness,
        "batch_order": order,
    }
    data = {
        "engines": engines, "learner": {"token_s": learner_share / rate}, "num_sandboxes": 64, "domains": [domain],
        "scheduler": scheduler,
    }  # fmt: skip
    return validate(Cluster, data, shape)


def day() -> Cluster:
    """A day of 256 engines with 16 slots each and 300 domains; replies of agents, 30,000 tokens at the median."""
    data = {
        "hours": 24.0,
        "engines": {"num": 256, "slots": 16, "token_s": 0.02, "token_s_per_member": 0.0004, "load_weights_s": 10.0},
        "learner": {"num": 128, "token_s": 0.0004},
        "num_sandboxes": 2048,
        "domains": [
            {"name": "d", "copies": 300, "lengths": {"median": 30_000.0, "sigma": 1.0}, "max_tokens": 131_072,
             "verify_s": {"median": 20.0, "sigma": 1.0}}
        ],
        "scheduler": {"batch_groups": 256, "group_size": 16, "max_staleness": 4,
                      "concurrency": {"most": 4096}},
    }  # fmt: skip
    return validate(Cluster, data, "day")


def known_lengths(shape: str, num_batches: int = NUM_SYNCHRONOUS) -> str:
    """The least time of sampling a batch by what it takes: begun in any order, and longest first."""
    given = cluster(shape, 1.0, 0, num_batches=num_batches, order="due")
    assert given.domains[0].lengths is not None
    table, generator = Table(given.domains[0].lengths), random.Random(1)
    least_s = any_s = longest_s = 0.0
    for _ in range(num_batches):
        lengths: list[int] = []
        for _ in range(given.scheduler.batch_groups):
            common = generator.gauss(0.0, 1.0)
            drawn = [table.at(alike(common, given.domains[0].alike, generator)) for _ in range(GROUP_SIZE)]
            lengths += [max(1, min(round(length), given.domains[0].max_tokens)) for length in drawn]
        least_s += least_sampling_s(lengths, given.engines)
        any_s += sampling_s(given.engines, lengths)
        longest_s += sampling_s(given.engines, sorted(lengths, reverse=True))
    return f"begun in any order {least_s / any_s:.1%} of the bound, the longest first {least_s / longest_s:.1%}"


def sampling_s(engines: Engines, lengths: Sequence[int]) -> float:
    """How long members of these lengths take that are begun in this order."""
    fleet, now_s = Fleet(engines), 0.0
    waiting = deque(Ticket(str(number), 0, 0) for number in range(len(lengths)))
    num_free = engines.num * engines.slots
    while waiting or fleet.runs:
        while waiting and num_free:
            ticket = waiting.popleft()
            fleet.start(ticket, lengths[int(ticket.group_id)], 0, 0, now_s)
            num_free -= 1
        fleet.stand_still(now_s, 0.0)  # brings every engine's clock to now
        now_s, _, ended = min(end for i in range(engines.num) if (end := fleet.next_end(i, now_s)) is not None)
        fleet.stop(ended, now_s)
        num_free += 1
    return now_s


def line(name: str, outcome: Outcome) -> str:
    """One line of the table."""
    lag = sum(lag * count for lag, count in outcome.staleness.items()) / max(outcome.num_groups_trained, 1)
    return (
        f"{name:<44} learner {outcome.learner_busy:6.1%}  engines {outcome.engines_busy:6.1%}  "
        f"of the bound {outcome.efficiency:6.1%} ({outcome.bound_by})  mean lag {lag:.2f}"
    )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--day", action="store_true")
    parser.add_argument("--staleness", type=int, nargs="*", default=[0, 8, 16])
    parser.add_argument("--order", choices=["admission", "due"], default="due")
    parser.add_argument("--batches", type=int, default=400, help="20 where staleness is 0: there is nothing to fill.")
    arguments = parser.parse_args()
    for shape in SHAPES:
        for bottleneck, share in LEARNERS.items():
            for staleness in arguments.staleness:
                num_batches = arguments.batches if staleness else NUM_SYNCHRONOUS
                outcome = simulate(cluster(shape, share, staleness, num_batches=num_batches, order=arguments.order))
                print(line(f"{shape}, {bottleneck}, S = {staleness}", outcome), flush=True)
    for shape in SHAPES if 0 in arguments.staleness else ():
        print(f"{shape}, sampling a batch: {known_lengths(shape)}", flush=True)
    if arguments.day:
        began = time.process_time()
        outcome = simulate(day())
        took_s = time.process_time() - began
        print(line("a day of 256 engines, 300 domains", outcome))
        print(
            f"{took_s:.1f} s of processor time, {outcome.num_rollouts} rollouts, "
            f"{took_s / outcome.num_rollouts * 1e6:.0f} us each"
        )


if __name__ == "__main__":
    main()
