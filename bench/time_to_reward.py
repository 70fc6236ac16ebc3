"""Wall-clock to a fixed reward on an `rg:` task: stage `rl` against TRL's GRPOTrainer. Not part of `make bench`.

    python -m bench.time_to_reward [--seeds 1 2 3] [--target 0.5] [--probe-steps 25] [--steps 75] [--threads 2]

The task is `rg:letter_counting` in three to six words. Both sides start from one checkpoint: SmolLM2-135M after four
updates on demonstrations, made once and kept in `runs/bench/`. Then both get the same prompts in the same order (8 a
step, 8 replies each, at most 16 tokens) and the same verdicts, those of our domain and its sandbox; full training
over float32 weights, AdamW with betas 0.9 and 0.95, rate 3e-5 constant, no decay, gradients clipped at 1, GRPO with
clip 0.2 and no KL term, one update a step. Reached is the target when the mean reward of five steps in a row is
there; time counts from the beginning of the first step, so that loading is left out on both sides. Without `--target`
it is what stage `rl` reaches with seed 0 in `--probe-steps` steps, which no side is timed on.

What differs: random numbers; a group without signal has no weight in our mean over replies, and weight without gradient
in TRL's; we correct for the distance between sampler and learner (TIS, which does nothing where they agree) and
measure it; TRL asks for verdicts over a pipe. TRL is found through BURNISH_TRL_PYTHON.
"""

import argparse
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from bench.contest.race import ROOT, add_machine, announce, peer
from bench.contest.reward_task import (
    DOMAIN,
    GROUP,
    LEARNING_RATE,
    NEW,
    NUM_EVAL,
    OPTIONS,
    PROMPTS,
    WINDOW,
    Point,
    reached,
)

RUNS = ROOT / "runs" / "bench"
BURNISH = [str(Path(sys.executable).with_name("burnish")), "run"]
SFT = {"use": "sft", "num_examples": 32, "batch_size": 8, "learning_rate": 2e-5, "num_warmup": 1}
RL = {
    "use": "rl", "prompts_per_step": PROMPTS, "group_size": GROUP, "max_new_tokens": NEW, "max_draws_factor": 1.0,
    "objective": "grpo@trl", "learning_rate": LEARNING_RATE, "num_warmup": 0, "checkpoint_every": 1000,
}  # fmt: skip
LEAST_RISE = 0.1
INTERRUPT_S = 60


class How(NamedTuple):
    """What both sides compute with."""

    threads: int
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A trainer at work, and what can be read of its steps so far."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    points: Callable[[], list[Point]]


def main(options: argparse.Namespace) -> None:
    """Run each seed on both sides; print a line a run, and the ratio of medians."""
    how = How(options.threads, options.dtype)
    shape = how._asdict() | {"task": DOMAIN, "seeds": options.seeds}
    announce("time to reward", shape, len(options.seeds))
    python = peer("trl", "wall-clock to a fixed reward against TRL's GRPOTrainer")
    start = options.start or start_model(how)
    target = options.target or probed_target(start, how, options)
    print(f"target: a mean reward of {target} over {WINDOW} steps", flush=True)
    taken: dict[str, list[float]] = {"Burnish": [], "TRL": []}
    for seed in options.seeds:
        with tempfile.TemporaryDirectory() as folder:
            run = start_burnish(start, seed, options.steps, Path(folder), how)
            taken["Burnish"].append(seconds_to(run, seed, target))
        if python:
            with tempfile.TemporaryDirectory() as folder:
                run = start_trl(python, start, seed, options.steps, Path(folder), how)
                taken["TRL"].append(seconds_to(run, seed, target))
    if python:
        ours, theirs = (statistics.median(taken[name]) for name in ("Burnish", "TRL"))
        print(f"time to reward: Burnish {ours:.0f} s, TRL {theirs:.0f} s, medians; ratio {theirs / ours:.2f}")


def start_model(how: How) -> Path:
    """The checkpoint that both sides begin with."""
    if not (RUNS / "start" / "final" / "config.json").exists():
        RUNS.mkdir(parents=True, exist_ok=True)
        recipe = write_recipe(RUNS, "start", 1, how, "starter", [SFT, {"use": "export"}])
        subprocess.run([*BURNISH, str(recipe), "--runs", str(RUNS)], check=True, cwd=ROOT)
    return RUNS / "start" / "final"


def probed_target(start: Path, how: How, options: argparse.Namespace) -> float:
    """The mean reward of the last steps of a short run."""
    with tempfile.TemporaryDirectory() as folder:
        run = start_burnish(start, 0, options.probe_steps, Path(folder), how)
        run.process.wait()
        rewards = [point.reward for point in run.points()]
        said = _said(run)
    print(f"probe, seed 0: rewards {_words(rewards)}", flush=True)
    if len(rewards) < options.probe_steps or fmean(rewards[-WINDOW:]) < fmean(rewards[:WINDOW]) + LEAST_RISE:
        raise SystemExit(f"the reward has not risen by {LEAST_RISE}; raise --probe-steps, or set --target\n{said}")
    return math.floor(100 * fmean(rewards[-WINDOW:])) / 100


def start_burnish(start: Path, seed: int, num_steps: int, folder: Path, how: How) -> Run:
    """Stage `rl` alone, as `burnish run` runs it."""
    recipe = write_recipe(folder, "rl", seed, how, str(start), [RL | {"num_steps": num_steps}])
    metrics = folder / "rl" / "metrics.jsonl"

    def points() -> list[Point]:
        rows = [json.loads(line) for line in _lines(metrics)]
        seconds_S = accumulate(row["sample_and_judge_s"] + row["train_s"] for row in rows)
        return [Point(seconds=s, reward=row[f"reward/{DOMAIN}"]) for s, row in zip(seconds_S, rows, strict=True)]

    return _start("Burnish", [*BURNISH, str(recipe), "--runs", str(folder)], points, folder, how)


def start_trl(python: str, start: Path, seed: int, num_steps: int, folder: Path, how: How) -> Run:
    """GRPOTrainer on the same tasks."""
    file = folder / "points.jsonl"
    shape = {
        "threads": how.threads, "dtype": how.dtype, "weights": "float32", "seed": seed, "steps": num_steps,
        "model": str(start), "judge": sys.executable, "points": str(file),
    }  # fmt: skip

    def points() -> list[Point]:
        return [Point(**json.loads(line)) for line in _lines(file)]

    return _start("TRL", [python, "-m", "bench.contest.reward_trl", json.dumps(shape)], points, folder, how)


def seconds_to(run: Run, seed: int, target: float) -> float:
    """Wait for the target, then stop the run; one that ends without it ends the contest."""
    while run.process.poll() is None and reached(run.points(), target) is None:
        time.sleep(0.5)
    _stop(run.process)
    points = run.points()
    num_steps = reached(points, target)
    rewards = _words([point.reward for point in points])
    if num_steps is None:
        raise SystemExit(f"{run.name}, seed {seed}: {target} was not reached; rewards {rewards}\n{_said(run)}")
    seconds = points[num_steps - 1].seconds
    print(f"{run.name}, seed {seed}: {seconds:.0f} s, {num_steps} steps; rewards {rewards}", flush=True)
    return seconds


def _stop(process: subprocess.Popen[bytes]) -> None:
    """By an interrupt, which a program that was started in the background may ignore, or else by force."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(INTERRUPT_S)
        except subprocess.TimeoutExpired:
            process.terminate()
    process.wait()


def write_recipe(
    folder: Path, name: str, seed: int, how: How, model: str, stages: list[dict[str, object]]
) -> Path:  # fmt: skip
    """Write a recipe into a folder."""
    recipe = {
        "name": name, "seed": seed, "threads": how.threads, "model": {"name": model, "dtype": how.dtype},
        "tasks": [{"domain": DOMAIN, "num_eval": NUM_EVAL, "options": OPTIONS}], "stages": stages,
    }  # fmt: skip
    path = folder / f"{name}.toml"
    path.write_text("\n".join(f"{key} = {_toml(value)}" for key, value in recipe.items()) + "\n")
    return path


def _start(
    name: str, command: Sequence[str], points: Callable[[], list[Point]], folder: Path, how: How
) -> Run:  # fmt: skip
    environment = os.environ | {"OMP_NUM_THREADS": str(how.threads), "HF_HUB_OFFLINE": "1"}
    log = folder / "log.txt"
    with log.open("wb") as file:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=file, stderr=file)
    return Run(name=name, process=process, log=log, points=points)


def _said(run: Run) -> str:
    """The end of what the trainer printed."""
    return run.log.read_text(errors="replace")[-3000:]


def _words(rewards: Sequence[float]) -> str:
    return " ".join(f"{reward:.2f}" for reward in rewards)


def _lines(path: Path) -> list[str]:
    """The whole lines of a file that is being written."""
    return path.read_text().split("\n")[:-1] if path.exists() else []


def _toml(value: object) -> str:
    """A value as TOML writes it."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return json.dumps(value)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Wall-clock to a fixed reward against TRL.")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--target", type=float, help="default: what a probe reaches")
    parser.add_argument("--probe-steps", type=int, default=25)
    parser.add_argument("--steps", type=int, default=75, help="after so many steps the contest ends")
    add_machine(parser)
    parser.add_argument("--start", type=Path, help="another checkpoint to begin with")
    main(parser.parse_args())
