"""What asynchrony saves where verdicts are slow, and what it costs in reward.

`python bench/asynchronous.py [--steps 12] [--median-s 2.0] [--sigma 1.0] [--max-staleness 2] [--model starter]`

Both loops train the same model (after the same fine-tuning) on the domain `code`, whose verdicts come after a
log-normal delay beside their own time; an equal reply to an equal task waits equally long in both, and no verdict is
cached. Printed: wall-clock to the same number of trained tokens; mean reward of the last steps that were done by the
time at which the faster loop ended; the load average before and after each loop.
"""

import argparse
import asyncio
import os
import random
import tempfile
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console

from burnish.core import metrics
from burnish.core.recipe import Recipe
from burnish.core.seeds import derive
from burnish.core.types import Task, Verdict
from burnish.domains import Domain
from burnish.rollout.judge import Judge
from burnish.stages import rl, sft
from burnish.stages.rl_config import Config
from burnish.stages.rl_plan import make_plan
from burnish.stages.rl_stream import asynchronous_steps
from burnish.stages.session import Session, open_session

NUM_LAST = 3
Steps = Callable[[Session, Config, Any, int], Generator[dict[str, float]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a loop: when it was done, and what it had."""

    wall_s: float
    tokens: float
    reward: float


def main() -> None:
    """Run both loops and print how they compare."""
    options = _options()
    with tempfile.TemporaryDirectory() as folder:
        start = _fine_tuned(options, Path(folder))
        sync = _measured(options, Path(folder), start, 0)
        asyn = _measured(options, Path(folder), start, options.max_staleness)
    tokens = min(sum(step.tokens for step in steps) for steps in (sync, asyn))
    if not tokens:
        raise SystemExit("a loop has trained on nothing, so there is nothing to compare; raise --examples or --steps")
    end_s = min(steps[-1].wall_s for steps in (sync, asyn))
    for name, steps in (("synchronous", sync), (f"max_staleness {options.max_staleness}", asyn)):
        done = [step for step in steps if step.wall_s <= end_s] or steps[:1]
        print(
            f"{name}: {_wall_to(steps, tokens):.1f} s to {tokens:.0f} trained tokens; reward of the last {NUM_LAST} "
            f"steps by {end_s:.1f} s: {fmean(step.reward for step in done[-NUM_LAST:]):.3f} after {len(done)} steps"
        )
    print(f"load average {os.getloadavg()[0]:.1f}")
    print(f"wall-clock to the same trained tokens: {_wall_to(sync, tokens) / _wall_to(asyn, tokens):.2f} times as fast")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--median-s", type=float, default=2.0)
    parser.add_argument("--sigma", type=float, default=1.0)
    parser.add_argument("--max-staleness", type=int, default=2)
    parser.add_argument("--model", default="starter")
    parser.add_argument("--domain", default="code")
    parser.add_argument("--examples", type=int, default=720)
    return parser.parse_args()


def _recipe(options: argparse.Namespace, name: str, max_staleness: int) -> Recipe:
    stage = {
        "use": "rl", "num_steps": options.steps, "prompts_per_step": 8, "group_size": 8, "learning_rate": 1e-4,
        "max_draws_factor": 1.5, "max_staleness": max_staleness,
    }  # fmt: skip
    tune = {"use": "sft", "num_examples": options.examples, "batch_size": 16, "learning_rate": 1e-3}
    lora = {} if options.model == "tiny" else {"lora": {"rank": 32, "alpha": 64.0}}
    return Recipe.model_validate(
        {
            "name": name, "seed": 1, "model": {"name": options.model, **lora}, "verify": {"cache": False},
            "tasks": [{"domain": options.domain, "num_eval": 8}], "stages": [tune, stage],
        }
    )  # fmt: skip


def _fine_tuned(options: argparse.Namespace, runs: Path) -> Path:
    """A checkpoint that both loops begin from."""
    recipe = _recipe(options, "start", 0)
    with open_session(recipe, runs, resume=False, console=Console(quiet=True)) as session:
        result = sft.run(session, sft.Config.model_validate(_stage(recipe, 0)))
        return session.folder.checkpoint(result["checkpoint"])


def _stage(recipe: Recipe, position: int) -> dict[str, Any]:
    return {key: value for key, value in recipe.stages[position].items() if key != "use"}


def _measured(options: argparse.Namespace, runs: Path, start: Path, max_staleness: int) -> list[Step]:
    recipe = _recipe(options, f"staleness-{max_staleness}", max_staleness)
    loop: Steps = asynchronous_steps if max_staleness else rl.synchronous_steps
    print(f"max_staleness {max_staleness}: load average {os.getloadavg()[0]:.1f}", flush=True)
    with open_session(recipe, runs, resume=False, console=Console(quiet=True)) as session:
        session.position = 1
        session.policy.load(start)
        session.means = replace(session.means, judge=_slow(session.means.judge, options.median_s, options.sigma))
        config = Config.model_validate(_stage(recipe, 1))
        plan = make_plan(session, config)
        session.policy.reset_optimiser(config.optimiser_config())
        started = time.monotonic()
        done_s = [time.monotonic() - started for _ in loop(session, config, plan, 0)]
        rows = metrics.read(session.folder.path / "metrics.jsonl")
    return [_step(row.values, wall_s) for row, wall_s in zip(rows, done_s, strict=True)]


def _step(row: Any, wall_s: float) -> Step:
    rewards = [value for name, value in row.items() if name.startswith("reward/")]
    return Step(wall_s=wall_s, tokens=row.get("tokens_trained", 0.0), reward=fmean(rewards) if rewards else 0.0)


def _slow(judge: Judge, median_s: float, sigma: float) -> Judge:
    """The same verdicts, each after a delay that follows from task and reply."""

    async def slow(domain: Domain, task: Task, reply: str) -> Verdict:
        drawn = random.Random(derive(1, "delay", task.id, reply))
        await asyncio.sleep(median_s * drawn.lognormvariate(0.0, sigma))
        return await judge(domain, task, reply)

    return slow


def _wall_to(steps: list[Step], tokens: float) -> float:
    """When so many tokens were trained, between steps by their share."""
    trained, last_s = 0.0, 0.0
    for step in steps:
        if step.tokens and trained + step.tokens >= tokens:
            return last_s + (step.wall_s - last_s) * (tokens - trained) / step.tokens
        trained, last_s = trained + step.tokens, step.wall_s
    return last_s


if __name__ == "__main__":
    main()
