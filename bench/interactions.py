"""Reward against interactions with the environment: pure online, pure offline, and mixed.

    python -m bench.interactions [--seeds 1 2 3] [--segments 3] [--each 512] [--svg FILE]

The tiny model on `arithmetic`, where an interaction is a reply that is judged. For each seed one run makes what all
arms begin with: weights (fine-tuned on sums), and histories (768 replies of those weights, never trained on):

    online    stage `rl`
    offline   stage `offline` on the histories (`oapl`, six epochs), and no interaction: where the next two begin
    after     `offline`, then plain `rl`
    mixed     `offline`, then `rl` with `aim` and `replay` on the same histories

each in `--segments` stages `rl` of `--each` interactions (`max_interactions`), on the same tasks by the same seeds,
with the same rate, objective (`dapo`) and group size; groups without signal are not replaced, but count. Between
segments the policy is measured on the tasks' own distribution, by 192 sampled replies that count for no arm: rewards of
aimed draws would be of harder tasks. What the histories cost to collect is not counted either; it is printed.
"""

import argparse
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Final

from burnish.core import metrics
from burnish.core.recipe import Recipe
from burnish.dashboard.charts import write_learning_curve_svg
from burnish.stages.runner import run_recipe

Curve = list[tuple[float, float]]
"""Interactions so far, and the mean reward after them."""

TASK: Final = {"domain": "arithmetic", "num_eval": 4, "options": {"largest": 3}}
GROUPS: Final = {"prompts_per_step": 8, "group_size": 8, "max_draws_factor": 1.0}
STILL: Final = {"use": "rl", **GROUPS, "learning_rate": 1e-12, "checkpoint_every": 1000}
MEASURE: Final = STILL | {"num_steps": 3}
NUM_STORED: Final = 12 * 64


def main(options: argparse.Namespace) -> None:
    """Run the arms with each seed; print a line an arm and seed, then means over seeds."""
    print(f"{NUM_STORED} stored replies a seed; load {os.getloadavg()[0]:.1f}", flush=True)
    found: dict[str, list[Curve]] = {}
    for seed in options.seeds:
        with tempfile.TemporaryDirectory() as folder:
            for name, curve in curves_of(seed, Path(folder), options).items():
                found.setdefault(name, []).append(curve)
                print(f"seed {seed} {name}: {_words(curve)}", flush=True)
    means = {name: mean_of(curves) for name, curves in found.items()}
    for name, curves in found.items():
        ends = [curve[-1][1] for curve in curves]
        spread = f" ± {stdev(ends):.3f} (sd over seeds)" if len(ends) > 1 else ""
        print(f"mean {name}: {_words(means[name])}; at the end {fmean(ends):.3f}{spread}")
    for target in (0.5, 0.75, 0.9):
        print(f"interactions to a mean reward of {target}: {_reached(means, target)}")
    print(f"load {os.getloadavg()[0]:.1f}")
    if options.svg:
        write_learning_curve_svg(
            options.svg, means, "Mean reward of sampled replies, by interactions", x_title="interactions"
        )


def curves_of(seed: int, folder: Path, options: argparse.Namespace) -> dict[str, Curve]:
    """All arms with one seed."""
    start = start_of(seed, folder, options.examples)
    offline = {
        "use": "offline", "data": str(start), "objective": "oapl", "num_epochs": 6, "batch_size": 64,
        "learning_rate": 1e-3, "checkpoint_every": 1000,
    }  # fmt: skip
    plain = {
        "use": "rl", **GROUPS, "num_steps": 1 + options.each // 8, "max_interactions": options.each,
        "learning_rate": 2e-3, "num_warmup": 0, "checkpoint_every": 1000,
    }  # fmt: skip
    mixing = plain | {"histories": str(start), "aim": {}, "replay": {"share": 0.25}}
    learned = run_arm("offline", [MEASURE, offline, MEASURE, {"use": "export"}], start, seed)
    return {
        "online": run_arm("online", [MEASURE, *[plain, MEASURE] * options.segments], start, seed),
        "offline": learned,
        "after": run_arm("after", [MEASURE, *[plain, MEASURE] * options.segments], folder / "offline", seed),
        "mixed": run_arm("mixed", [MEASURE, *[mixing, MEASURE] * options.segments], folder / "offline", seed),
    }


def start_of(seed: int, folder: Path, num_examples: int) -> Path:
    """The run that makes weights and histories; its folder."""
    sft = {"use": "sft", "num_examples": num_examples, "batch_size": 20, "learning_rate": 1e-3}
    collect = STILL | {"num_steps": NUM_STORED // 64}
    _run("start", seed, "tiny", [sft, collect, {"use": "export"}], folder)
    return folder / "start"


def run_arm(name: str, stages: Sequence[dict[str, Any]], start: Path, seed: int) -> Curve:
    """Run an arm from what another run has exported; its curve."""
    _run(name, seed, str(start / "final"), stages, start.parent)
    rows = metrics.read(start.parent / name / "metrics.jsonl")
    spent, curve = 0.0, Curve()
    for position, stage in enumerate(stages):
        of_stage = [row.values for row in rows if row.stage == f"{position}-{stage['use']}"]
        if stage == MEASURE:
            curve.append((spent, fmean(row["reward/arithmetic"] for row in of_stage)))
        elif stage["use"] == "rl":
            spent += sum(row["interactions"] for row in of_stage)
    return curve


def mean_of(curves: Sequence[Curve]) -> Curve:
    """The mean over seeds at each point."""
    return [
        (fmean(point[0] for point in points), fmean(point[1] for point in points))
        for points in zip(*curves, strict=True)
    ]


def interactions_to(curve: Curve, target: float) -> float | None:
    """The interactions after which a reward was first reached, between measurements by their share; None if never."""
    last = curve[0]
    for point in curve:
        if point[1] >= target:
            share = (target - last[1]) / (point[1] - last[1]) if point[1] > last[1] else 1.0
            return last[0] + (point[0] - last[0]) * max(0.0, share)
        last = point
    return None


def _run(name: str, seed: int, model: str, stages: Sequence[dict[str, Any]], folder: Path) -> None:
    plain = {"name": name, "seed": seed, "threads": 1, "model": {"name": model}, "tasks": [TASK]}
    run_recipe(Recipe.model_validate(plain | {"stages": [*stages]}), folder, resume=False)


def _words(curve: Curve) -> str:
    return " ".join(f"{spent:.0f}:{reward:.3f}" for spent, reward in curve)


def _reached(means: Mapping[str, Curve], target: float) -> str:
    found = {name: interactions_to(curve, target) for name, curve in means.items()}
    return ", ".join(f"{name} {'not reached' if at is None else f'{at:.0f}'}" for name, at in found.items())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--segments", type=int, default=3)
    parser.add_argument("--each", type=int, default=512, help="interactions a segment")
    parser.add_argument("--examples", type=int, default=3000, help="of fine-tuning, before all arms")
    parser.add_argument("--svg", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main(_options())
