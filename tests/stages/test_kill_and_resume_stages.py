"""Each other stage that trains, killed at any moment, ends with the bits of an unbroken run."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from burnish.data import trajectory_files
from tests.stages.killed import KilledRun, assert_alike
from tests.stages.stored import trajectory

HEAD = """
name = "broken"
seed = 4
threads = 1
model = {{ name = "tiny" }}
tasks = [{{ domain = "arithmetic", num_eval = 2, options = {{ largest = 5 }} }}]
stages = [{0}]
"""
SFT = '{ use = "sft", num_examples = 240, batch_size = 20, learning_rate = 1e-2 }'
PAIRS = """num_epochs = 3, batch_size = 8, learning_rate = 1e-3, checkpoint_every = 4, ema_decay = 0.5,
    data = "recipes/preference_tiny.jsonl", eval_data = "recipes/preference_tiny_eval.jsonl" """
LIVE = "num_steps = 9, prompts_per_step = 4, group_size = 4, learning_rate = 1e-3, checkpoint_every = 4"


@dataclass(frozen=True, kw_only=True)
class Case:
    """The stages of a recipe, which of them is killed, and the file that holds what it learned."""

    stages: str
    stage: str
    writes: str


def _writes(stage: str) -> str:
    return f"checkpoints/{stage}/masters.safetensors"


CASES = {
    "preference": Case(
        stages=f'{{ use = "preference", loss = "ipo@mean", {PAIRS} }}',
        stage="0-preference",
        writes=_writes("0-preference"),
    ),
    "reward_model": Case(
        stages=f'{{ use = "reward_model", {PAIRS} }}',
        stage="0-reward_model",
        writes="reward/0-reward_model/head.safetensors",
    ),
    "offline": Case(
        stages='{{ use = "offline", data = "{folder}/data", num_epochs = 9, batch_size = 3, kl_coefficient = 0.1, '
        "learning_rate = 1e-3, checkpoint_every = 4 }}",
        stage="0-offline",
        writes=_writes("0-offline"),
    ),
    "ppo": Case(
        stages=f'{SFT}, {{ use = "rl", objective = "ppo", updates_per_step = 2, critic = {{ num_warmup_steps = 2 }}, '
        f"{LIVE} }}",
        stage="1-rl",
        writes=_writes("1-rl"),
    ),
    "rejection": Case(
        stages=f'{SFT}, {{ use = "rejection", num_tasks = 40, batch_size = 4, checkpoint_every = 4 }}',
        stage="1-rejection",
        writes=_writes("1-rejection"),
    ),
    "distill": Case(
        stages=f'{SFT}, {{ use = "distill", teacher = "tiny", {LIVE} }}', stage="1-distill", writes=_writes("1-distill")
    ),
    "gkd": Case(
        stages=f'{SFT}, {{ use = "distill", objective = "gkd", student_share = 0.5, teacher = "tiny", {LIVE} }}',
        stage="1-distill",
        writes=_writes("1-distill"),
    ),
    "process_reward_model": Case(
        stages='{{ use = "process_reward_model", data = "{folder}/data/steps.jsonl", num_epochs = 3, batch_size = 8, '
        "learning_rate = 1e-3, checkpoint_every = 4, ema_decay = 0.5 }}",
        stage="0-process_reward_model",
        writes="reward/0-process_reward_model/head.safetensors",
    ),
}
IsTime = Callable[[KilledRun, Case], bool]
Runs = Callable[[str], KilledRun]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """The run of a case that was never killed, made once."""
    made: dict[str, KilledRun] = {}

    def run_of(name: str) -> KilledRun:
        if name not in made:
            made[name] = started(CASES[name], tmp_path_factory.mktemp(name))
            made[name].finish()
        return made[name]

    return run_of


def started(case: Case, folder: Path) -> KilledRun:
    (folder / "data").mkdir()
    replies = [trajectory(f"{i}+{i}=", str(i + j), float(j == i), member=j) for i in range(1, 4) for j in range(4)]
    trajectory_files.write(folder / "data" / "some.parquet", replies)
    steps = [
        {"prompt": f"{i}+{j}=", "steps": [f"{i} and {j}", f"{i + j}"], "labels": [1, (i * j) % 2]}
        for i in range(1, 6)
        for j in range(1, 7)
    ]
    (folder / "data" / "steps.jsonl").write_text("".join(json.dumps(line) + "\n" for line in steps))
    stages = case.stages.format(folder=folder) if "{folder}" in case.stages else case.stages
    return KilledRun(folder, HEAD.format(" ".join(stages.split())))


def after_steps(num: int) -> IsTime:
    return lambda run, case: run.num_logged(case.stage) >= num


def after_checkpoint(step: int) -> IsTime:
    return lambda run, case: (run.path / "checkpoints" / f"{case.stage}-step-{step}").exists()


def when_written(run: KilledRun, case: Case) -> bool:
    return (run.path / case.writes).parent.exists()


KILLS = {
    "before the first checkpoint": [after_steps(2)],
    "at a checkpoint": [after_checkpoint(8)],
    "three times": [after_steps(3), after_steps(6), when_written],
}


QUICK = ("preference", "at a checkpoint")
"""One of them in the usual tests: each starts a run three times or more."""


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("name", "kills"),
    [
        pytest.param(name, kills, id=f"{name}, {when}", marks=[] if (name, when) == QUICK else [pytest.mark.slow])
        for name in CASES
        for when, kills in KILLS.items()
    ],
)
def test_a_killed_run_ends_like_an_unbroken_one(name: str, kills: list[IsTime], unbroken: Runs, tmp_path: Path) -> None:
    whole, run = unbroken(name), started(CASES[name], tmp_path)
    for is_time in kills:
        run.kill_when(lambda is_time=is_time: is_time(run, CASES[name]))
    run.finish()
    assert_alike(run, whole, CASES[name].stage, CASES[name].writes)
