"""A learner in two ranks trains what one process trains, and a run whose rank was killed goes on."""

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from burnish.core.errors import ConfigError
from burnish.core.recipe import Recipe
from burnish.runtime.workers import WorkerLost
from burnish.stages.check import check_recipe, open_stages
from burnish.stages.runner import run_recipe
from tests.rollout.test_verifier_workers import descendants
from tests.runtime.ray_cluster import ray_cluster
from tests.stages.test_runtime import kind_of

NUM_STEPS = 10
SFT = {"use": "sft", "num_examples": 60, "batch_size": 6, "num_warmup": 1, "learning_rate": 1e-3, "checkpoint_every": 4}
RL = {
    "use": "rl", "num_steps": NUM_STEPS, "prompts_per_step": 2, "group_size": 3, "max_new_tokens": 8,
    "learning_rate": 1e-3, "updates_per_step": 2, "kl_coefficient": 0.1, "kl_kind": "top_k", "ema_decay": 0.5,
    "checkpoint_every": 4,
}  # fmt: skip


def recipe(name: str, *stages: dict[str, object], **runtime: object) -> Recipe:
    return Recipe.model_validate(
        {
            "name": name, "seed": 3, "threads": 1, "model": {"name": "tiny"}, "engine": {"max_rows": 8},
            "tasks": [
                {"domain": "tests.stages.checksum_domain", "num_eval": 2, "when_check_fails": "train_anyway"},
            ],
            "stages": [*stages], "runtime": runtime,
        }
    )  # fmt: skip


@contextmanager
def killing_a_rank(run: Path, after: int) -> Iterator[None]:
    """Kills one as soon as so many steps of `rl` are in the metrics."""
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(0.02):
            file = run / "metrics.jsonl"
            rows = [json.loads(line) for line in file.read_text().split("\n")[:-1]] if file.exists() else []
            if sum(row["stage"] == "1-rl" for row in rows) >= after:
                victims = [pid for pid in descendants(os.getpid()) if kind_of(pid) == "rank"]
                os.kill(victims[-1], signal.SIGKILL)
                return

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def weights(runs: Path, name: str, checkpoint: str) -> dict[str, torch.Tensor]:
    return load_file(runs / name / "checkpoints" / checkpoint / "masters.safetensors")


def assert_alike(runs: Path, one: str, other: str, checkpoint: str) -> None:
    ours, theirs = weights(runs, one, checkpoint), weights(runs, other, checkpoint)
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        torch.testing.assert_close(ours[name], tensor, atol=1e-5, rtol=0, msg=name)
    base = weights(runs, one, "base")
    assert max(float((ours[name] - base[name]).abs().max()) for name in base) > 1e-3  # it has learned


def metrics(runs: Path, name: str) -> list[dict[str, float]]:
    rows = [json.loads(line) for line in (runs / name / "metrics.jsonl").read_text().splitlines()]
    return [
        {key: value for key, value in row.items() if not key.endswith("_s") and not key.startswith("verify/")}
        for row in rows
    ]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_ranks_train_the_weights_of_one_and_a_run_whose_rank_was_killed_goes_on(tmp_path: Path) -> None:
    assert run_recipe(recipe("alone", SFT, RL), tmp_path, resume=False) == 0
    ranked = recipe("ranked", SFT, RL, learner_ranks=2)
    with killing_a_rank(tmp_path / "ranked", after=6), pytest.raises(WorkerLost, match=r"rank-1.* by --resume"):
        run_recipe(ranked, tmp_path, resume=False)
    assert run_recipe(ranked, tmp_path, resume=True) == 0
    for checkpoint in ("0-sft", "1-rl"):
        assert_alike(tmp_path, "ranked", "alone", checkpoint)
    for ours, theirs in zip(metrics(tmp_path, "ranked"), metrics(tmp_path, "alone"), strict=True):
        assert ours == pytest.approx(theirs, abs=1e-4)
    assert not [pid for pid in descendants(os.getpid()) if kind_of(pid) == "rank"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_ranks_on_ray_train_the_weights_of_one(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="pip install 'burnish[ray]'")
    short = SFT | {"num_examples": 60}
    assert run_recipe(recipe("alone", short), tmp_path, resume=False) == 0
    with ray_cluster(num_cpus=2) as address:
        ranked = recipe("ranked", short, kind="ray", address=address, learner_ranks=2)
        assert run_recipe(ranked, tmp_path, resume=False) == 0
    assert_alike(tmp_path, "ranked", "alone", "0-sft")


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        ({"use": "distill", "teacher": "tiny", "num_steps": 1}, "stage 'distill' trains in one .* sft, offline and rl"),
        (SFT | {"optimiser": "muon"}, "optimiser 'muon' needs whole matrices"),
        (RL | {"objective": "ppo", "kl_kind": "k2"}, "objective 'ppo' has a value model"),
        ({"use": "export"}, "no stage of the recipe trains"),
    ],
)
def test_what_ranks_cannot_do_is_refused_by_name(stage: dict[str, object], message: str) -> None:
    open_stages(recipe("fine", stage))
    with pytest.raises(ConfigError, match=message):
        open_stages(recipe("refused", stage, learner_ranks=2))


def test_what_ranks_can_do_is_accepted() -> None:
    checked = check_recipe(recipe("fine", SFT, RL, learner_ranks=2, learner_threads=2))
    assert checked["runtime"]["learner_ranks"] == 2
