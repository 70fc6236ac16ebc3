"""A cluster fitted from a run folder has the numbers that made the run."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from burnish.core.errors import ConfigError
from burnish.core.metrics import MetricsLog
from burnish.core.recipe import read_recipe
from burnish.core.types import Trajectory, Verdict
from burnish.data import trajectory_files
from burnish.plan.fit import fit
from burnish.plan.simulate import simulate

RECIPE = Path(__file__).parents[2] / "recipes/arithmetic_tiny.toml"
LENGTHS = [[5, 9, 3, 7], [12, 4, 6, 6], [8, 30, 2, 10], [20, 21, 7, 9], [5, 5, 14, 3], [17, 2, 2, 40]]


def trajectory(group: int, member: int, length: int) -> Trajectory:
    verdict = Verdict.scored(float(member % 2)) if group or member else Verdict.unscorable("no answer")
    return Trajectory(
        group_id=f"3/{group:07d}", member=member, task_id=f"arithmetic/train/1/{group}", prompt_hash="", seed=0,
        token_ids=(1,) * (length + 2), was_sampled=(False,) * 2 + (True,) * length, logprobs=(0.0,) * (length + 2),
        reply="", stop_reason="eos", oldest_version=0, newest_version=0, verdict=verdict, verify_s=0.001,
    )  # fmt: skip


@pytest.fixture
def run(tmp_path) -> Path:
    """Two groups a step; a token takes 0.01 + 0.002 (n - 1) s, a training step 0.3 + 0.004 s a token."""
    (tmp_path / "trajectories").mkdir()
    (tmp_path / "recipe.resolved.json").write_text(json.dumps(read_recipe(RECIPE, []).model_dump(mode="json")))
    members = [trajectory(g, m, length) for g, group in enumerate(LENGTHS) for m, length in enumerate(group)]
    trajectory_files.write(tmp_path / "trajectories/rl.parquet", members)
    with MetricsLog(tmp_path / "metrics.jsonl") as log:
        for step in range(3):
            lengths = [length for group in LENGTHS[2 * step : 2 * step + 2] for length in group]
            total = sum(lengths)
            sample_s = 0.01 * max(lengths) + 0.002 * (total - max(lengths))
            log.log(step, "rl", num_groups=2, tokens_sampled=total, tokens_trained=total,
                    sample_and_judge_s=sample_s, train_s=0.3 + 0.004 * total)  # fmt: skip
    return tmp_path


def test_times_and_shares_come_back(run):
    found = fit(run)
    assert (found.engines.token_s, found.engines.token_s_per_member) == pytest.approx((0.01, 0.002))
    assert (found.learner.step_s, found.learner.token_s) == pytest.approx((0.3, 0.004))
    (domain,) = found.domains
    assert domain.name == "arithmetic"
    assert domain.lengths.values == sorted(length for group in LENGTHS for length in group)
    assert domain.undecided_share == 1 / 24
    assert domain.pass_rates == pytest.approx([0.5] * 5 + [2 / 3])
    assert found.scheduler.batch_groups == 2
    assert found.scheduler.group_size == 4


def test_the_simulated_run_takes_about_as_long_as_the_real_one(run):
    found = fit(run)
    longer = found.model_copy(update={"scheduler": found.scheduler.model_copy(update={"num_batches": 200})})
    sample_s = [0.01 * 12 + 0.002 * 40, 0.01 * 30 + 0.002 * 77, 0.01 * 40 + 0.002 * 48]
    train_s = [0.3 + 0.004 * total for total in (52, 107, 88)]
    measured = (sum(sample_s) + sum(train_s)) / 3
    assert simulate(longer).step_s == pytest.approx(measured, rel=0.15)


def test_a_folder_without_training_steps_says_what_is_missing(run):
    (run / "metrics.jsonl").write_text("")
    with pytest.raises(ConfigError, match="0 training steps with sample_and_judge_s"):
        fit(run)


def test_a_run_without_a_single_verdict_is_fitted_too(run):
    path = run / "trajectories/rl.parquet"
    members = [replace(member, verdict=Verdict.timed_out("slow")) for member in trajectory_files.read(path)]
    trajectory_files.write(path, members)
    (domain,) = fit(run).domains
    assert domain.undecided_share == 0.99
