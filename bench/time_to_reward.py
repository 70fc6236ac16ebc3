"""Wall-clock to a fixed reward on an `rg:` task: stage `rl` against TRL's GRPOTrainer. Not part of `make bench`.

    python -m bench.time_to_reward [--seeds 1 2 3] [--target 0.75] [--steps 60] [--threads 2]

The task is `rg:chain_sum` with two summands of one digit. Both sides start from one checkpoint: SmolLM2-135M after four
updates on demonstrations, made once and kept in `runs/bench/`. Then both get the same prompts in the same order (8 a
step, 8 replies each, at most 16 tokens) and the same verdicts, those of our domain and its sandbox; full training in
float32, AdamW with betas 0.9 and 0.95, rate 2e-5 constant, no decay, gradients clipped at 1, GRPO with clip 0.2 and
no KL term, one update a step. Reached is the target when the mean reward of five steps in a row is there; time counts
from the beginning of the first step, so that loading is left out on both sides.

What differs: random numbers; a group without signal has no weight in our mean over replies, and weight without gradient
in TRL's; we correct for the distance between sampler and learner (TIS, which does nothing where they agree) and
measure it; TRL asks for verdicts over a pipe. TRL is found through BURNISH_TRL_PYTHON.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from itertools import accumulate
from pathlib import Path

from bench.contest.race import ROOT, announce, peer
from bench.contest.reward_task import DOMAIN, GROUP, LEARNING_RATE, NEW, NUM_EVAL, OPTIONS, PROMPTS, Point, reached

RUNS = ROOT / "runs" / "bench"
BURNISH = [str(Path(sys.executable).with_name("burnish")), "run"]
SFT = {"use": "sft", "num_examples": 32, "batch_size": 8, "learning_rate": 2e-5, "num_warmup": 1}
RL = {
    "use": "rl", "prompts_per_step": PROMPTS, "group_size": GROUP, "max_new_tokens": NEW, "max_draws_factor": 1.0,
    "objective": "grpo@trl", "learning_rate": LEARNING_RATE, "num_warmup": 0, "checkpoint_every": 1000,
}  # fmt: skip


def main(options: argparse.Namespace) -> None:
    """Run each seed on both sides; print a line a run, and the ratio of medians."""
    announce(
        "time to reward", {"threads": options.threads, "task": DOMAIN, "target": options.target}, len(options.seeds)
    )
    python = peer("trl", "wall-clock to a fixed reward against TRL's GRPOTrainer")
    start = options.start or start_model(options.threads)
    taken: dict[str, list[float]] = {"Burnish": [], "TRL": []}
    for seed in options.seeds:
        taken["Burnish"].append(burnish(start, seed, options))
        if python:
            taken["TRL"].append(trl(python, start, seed, options))
    if python:
        ours, theirs = (statistics.median(taken[name]) for name in ("Burnish", "TRL"))
        print(f"time to reward: Burnish {ours:.0f} s, TRL {theirs:.0f} s, medians; ratio {theirs / ours:.2f}")


def start_model(threads: int) -> Path:
    """The checkpoint that both sides begin with."""
    if not (RUNS / "start" / "final" / "config.json").exists():
        recipe = recipe_of("start", 1, threads, "starter", [SFT, {"use": "export"}])
        subprocess.run([*BURNISH, str(recipe), "--runs", str(RUNS)], check=True, cwd=ROOT)
    return RUNS / "start" / "final"


def recipe_of(name: str, seed: int, threads: int, model: str, stages: list[dict[str, object]]) -> Path:
    """Write a recipe into a folder of its own."""
    recipe = {
        "name": name, "seed": seed, "threads": threads, "model": {"name": model, "dtype": "float32"},
        "tasks": [{"domain": DOMAIN, "num_eval": NUM_EVAL, "options": OPTIONS}], "stages": stages,
    }  # fmt: skip
    path = Path(tempfile.mkdtemp()) / f"{name}.toml"
    path.write_text("\n".join(f"{key} = {_toml(value)}" for key, value in recipe.items()) + "\n")
    return path


def burnish(start: Path, seed: int, options: argparse.Namespace) -> float:
    """Seconds that stage `rl` takes to the target."""
    with tempfile.TemporaryDirectory() as runs:
        recipe = recipe_of("rl", seed, options.threads, str(start), [RL | {"num_steps": options.steps}])
        metrics = Path(runs, "rl", "metrics.jsonl")

        def points() -> list[Point]:
            rows = [json.loads(line) for line in _lines(metrics)]
            seconds = accumulate(row["sample_and_judge_s"] + row["train_s"] for row in rows)
            return [Point(seconds=s, reward=row[f"reward/{DOMAIN}"]) for s, row in zip(seconds, rows, strict=True)]

        return _time("Burnish", seed, [*BURNISH, str(recipe), "--runs", runs], points, options)


def trl(python: str, start: Path, seed: int, options: argparse.Namespace) -> float:
    """Seconds that GRPOTrainer takes to the target."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "points.jsonl")
        shape = {
            "threads": options.threads, "seed": seed, "steps": options.steps, "model": str(start),
            "judge": sys.executable, "points": str(file),
        }  # fmt: skip

        def points() -> list[Point]:
            return [Point(**json.loads(line)) for line in _lines(file)]

        return _time("TRL", seed, [python, "-m", "bench.contest.reward_trl", json.dumps(shape)], points, options)


def _time(
    name: str, seed: int, command: list[str], points: Callable[[], list[Point]], options: argparse.Namespace
) -> float:  # fmt: skip
    """Run until the target is reached, then stop; a run that does not reach it ends the contest."""
    environment = os.environ | {"OMP_NUM_THREADS": str(options.threads), "HF_HUB_OFFLINE": "1"}
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
        while process.poll() is None and reached(points(), options.target) is None:
            time.sleep(0.5)
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.wait()
        log.seek(0)
        said = log.read()[-3000:]
    seen = points()
    rewards = " ".join(f"{point.reward:.2f}" for point in seen)
    num_steps = reached(seen, options.target)
    if num_steps is None:
        raise SystemExit(f"{name}, seed {seed}: {options.target} was not reached; rewards {rewards}\n{said}")
    seconds = seen[num_steps - 1].seconds
    print(f"{name}, seed {seed}: {seconds:.0f} s, {num_steps} steps; rewards {rewards}", flush=True)
    return seconds


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
    parser.add_argument("--target", type=float, default=0.75)
    parser.add_argument("--steps", type=int, default=60, help="after so many steps the contest ends")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--start", type=Path, help="another checkpoint to begin with")
    main(parser.parse_args())
