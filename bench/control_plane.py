"""What the control plane of stage `rl` costs: the course, its ledger rows and whose turn it is, at 300 domains.

A run of the tiny model on the same sums under 300 names, each a domain that enters or trains from the start, with
shares by measured signal at every step (the default is every tenth), `solved` and `silent` for all, and corrections.
Two figures a step: what the course took of it (`course_s` of the metrics: records, fold, ledger, new shares), and what
choosing a source took of a draw. The tiny model makes the step as short as it can be, so a real one pays less.

Run: `python -m bench.control_plane`, with `--quick` for 10 steps, with `--domains N`.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from burnish.core import metrics
from burnish.core.config import validate
from burnish.core.recipe import Recipe
from burnish.rollout.turns import Turns
from burnish.stages.check import check_recipe
from burnish.stages.runner import run_recipe

STAGE: dict[str, Any] = {
    "use": "rl", "prompts_per_step": 16, "group_size": 4, "max_new_tokens": 8, "checkpoint_every": 1000,
    "max_draws_factor": 1.0, "mixture": {
        "kind": "signal", "every": 1, "solved": {"above": 0.9}, "silent": {"over": 64, "weight": 0.5},
    },
    "corrections": {"every": 5},
}  # fmt: skip


def recipe(num_domains: int, num_steps: int) -> Recipe:
    """Every third domain waits for the one before it."""
    tasks = [
        {
            "domain": "arithmetic", "group": f"sums-{number:03}", "num_eval": 1, "options": {"largest": 999},
            "enters": {"at_step": number % 3},
        }
        for number in range(num_domains)
    ]  # fmt: skip
    stages = [{"use": "sft", "num_examples": 2000, "batch_size": 40}, STAGE | {"num_steps": num_steps}]
    data = {"name": "control_plane", "threads": 1, "model": {"name": "tiny"}, "tasks": tasks, "stages": stages}
    return validate(Recipe, data, "bench")


def turn_s(num_domains: int, num_turns: int = 20_000) -> float:
    """Seconds of one choice of a source."""
    turns = Turns([1 + number % 7 for number in range(num_domains)])
    started = time.perf_counter()
    for _ in range(num_turns):
        turns.next()
    return (time.perf_counter() - started) / num_turns


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--domains", type=int, default=300)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    load = os.getloadavg()[0]
    check_recipe(recipe(1, 1))  # the tasks hold to the canon, once for all
    with tempfile.TemporaryDirectory() as runs:
        run_recipe(recipe(given.domains, 10 if given.quick else given.steps), Path(runs), resume=False)
        rows = [
            row.values for row in metrics.read(Path(runs) / "control_plane" / "metrics.jsonl") if row.stage == "1-rl"
        ]
    step_s = median(row["sample_and_judge_s"] + row["train_s"] + row["course_s"] for row in rows)
    course_s = median(row["course_s"] for row in rows)
    choice_s = turn_s(given.domains) * STAGE["prompts_per_step"]
    print(f"{given.domains} domains, {len(rows)} steps of {STAGE['prompts_per_step']} prompts, load {load:.1f} before")
    print(f"step {1000 * step_s:.1f} ms, course {1000 * course_s:.2f} ms, choice of sources {1000 * choice_s:.3f} ms")
    print(f"control plane: {100 * (course_s + choice_s) / step_s:.2f} % of the step (medians)")


if __name__ == "__main__":
    main()
