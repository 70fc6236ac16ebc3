"""How well the simulator foretells the time of a step on this machine.

`python -m bench.prediction [--steps 24] [--median-s 0.25] [--sigma 1.0] [--max-staleness 2]`

Two runs of the tiny model on sums whose verdicts come after a log-normal delay: a synchronous and an asynchronous one.
Each is fitted (`burnish plan fit`) and simulated, and its own mean time from update to update is compared with what
comes out. *Foretold* is the asynchronous run by what the synchronous one alone has shown, as one would who has only
that. Not in the times: checkpoints, and what comes before the first update. Groups without signal are not replaced,
since a synchronous run does that wave by wave, which the simulator does not know.

What is measured is itself a sample: printed behind it is the standard error of the mean step, as if steps were
independent (where they overlap it is less). By itself, a run is simulated with the very delays that it met, so that
most of that is not in the error; foretold, the two runs met different ones, and the error has the noise of both.
"""

import argparse
import contextlib
import io
import math
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple

from burnish.core.recipe import Recipe
from burnish.plan.cluster import Cluster
from burnish.plan.fit import fit
from burnish.plan.fit_steps import measured_steps_s
from burnish.plan.simulate import simulate
from burnish.rollout.scheduler_config import SchedulerConfig
from burnish.stages.rl_config import Config
from burnish.stages.runner import run_recipe

POSITION, STAGE = 1, "1-rl"
NUM_JUDGED_AT_ONCE = 32


class Comparison(NamedTuple):
    """A step's time as it came out of the simulator, and as it was."""

    name: str
    simulated_s: float
    measured_s: float
    noise: float
    """Standard error of what was measured, and of what was foretold from, as a share."""

    @property
    def error(self) -> float:
        """By which share of what was measured the simulator was off."""
        return self.simulated_s / self.measured_s - 1


def main() -> None:
    """Run, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--median-s", type=float, default=0.25)
    parser.add_argument("--sigma", type=float, default=1.0)
    parser.add_argument("--max-staleness", type=int, default=2)
    options = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        for one in compare(Path(folder), options.steps, options.median_s, options.sigma, options.max_staleness):
            times = f"simulated {one.simulated_s:6.3f} s  measured {one.measured_s:6.3f} s"
            print(f"{one.name:<40} {times}  {one.error:+.1%} (noise {one.noise:.0%})")
    print(f"load average {os.getloadavg()[0]:.1f}")


def compare(runs: Path, num_steps: int, median_s: float, sigma: float, max_staleness: int) -> list[Comparison]:
    """Make both runs, in `runs`."""
    recipes = [_recipe(num_steps, median_s, sigma, staleness) for staleness in (0, max_staleness)]
    for recipe in recipes:
        with contextlib.redirect_stdout(io.StringIO()):
            run_recipe(recipe, runs, resume=False)
    sync, asyn = (fit(runs / recipe.name, POSITION, scheduler_of(recipe)) for recipe in recipes)
    sync_steps_s, asyn_steps_s = (measured_steps_s(runs / recipe.name, STAGE) for recipe in recipes)
    sync_s, asyn_s = fmean(sync_steps_s), fmean(asyn_steps_s)
    sync_noise, asyn_noise = _noise(sync_steps_s), _noise(asyn_steps_s)
    foretold = sync.model_copy(update={"scheduler": asyn.scheduler})
    return [
        Comparison("synchronous, by itself", _step_s(sync), sync_s, sync_noise),
        Comparison(f"max_staleness {max_staleness}, by itself", _step_s(asyn), asyn_s, asyn_noise),
        Comparison(
            f"max_staleness {max_staleness}, foretold by the other", _step_s(foretold), asyn_s,
            math.hypot(sync_noise, asyn_noise),
        ),
    ]  # fmt: skip


def _noise(steps_s: Sequence[float]) -> float:
    return stdev(steps_s) / math.sqrt(len(steps_s)) / fmean(steps_s)


def scheduler_of(recipe: Recipe) -> SchedulerConfig:
    """The options of the scheduler of a recipe's stage."""
    options = {key: value for key, value in recipe.stages[POSITION].items() if key != "use"}
    return Config.model_validate(options).scheduler_config()


def _step_s(cluster: Cluster) -> float:
    """The mean of several worlds like it: one run alone may have met a rare delay."""
    outcomes = [simulate(cluster.model_copy(update={"seed": seed})) for seed in range(8)]
    return sum(outcome.step_s for outcome in outcomes) / len(outcomes)


def _recipe(num_steps: int, median_s: float, sigma: float, max_staleness: int) -> Recipe:
    domain = {
        "domain": "bench.contest.slow_sums", "num_eval": 2, "when_check_fails": "train_anyway",
        "options": {"largest": 5, "median_s": median_s, "sigma": sigma},
    }  # fmt: skip
    tune = {"use": "sft", "num_examples": 480, "batch_size": 20, "learning_rate": 1e-2}
    stage = {
        "use": "rl", "num_steps": num_steps, "prompts_per_step": 4, "group_size": 8, "learning_rate": 1e-3,
        "checkpoint_every": num_steps, "max_draws_factor": 1.0, "max_staleness": max_staleness,
    }  # fmt: skip
    return Recipe.model_validate(
        {
            "name": f"staleness-{max_staleness}", "seed": 1, "threads": 1, "model": {"name": "tiny"},
            "sandbox": {"num_workers": NUM_JUDGED_AT_ONCE}, "tasks": [domain], "stages": [tune, stage],
        }
    )  # fmt: skip


if __name__ == "__main__":
    main()
