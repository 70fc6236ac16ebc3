"""Every option of every stage that trains acts: changing it alone changes what a run leaves, or is refused.

`CHANGES` has a line for each option: what it is changed to, and what must be set for it to be read at all. What a run
leaves is its metrics, its files and its last weights. A new option without a line fails the first test.
"""

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from safetensors.torch import load_file

from burnish.core import metrics, plugins
from burnish.core.errors import BurnishError
from burnish.core.recipe import Recipe
from burnish.data import trajectory_files
from burnish.models.export import export
from burnish.models.load import load
from burnish.stages.runner import run_recipe
from burnish.stages.updates import Updates
from tests.stages.stored import trajectory

ROOT = Path(__file__).parents[2] / "recipes"
PAIRS, HELD_OUT = str(ROOT / "preference_tiny.jsonl"), str(ROOT / "preference_tiny_eval.jsonl")
OTHER_PAIRS = "FOLDER/pairs.jsonl"
STEPS, OTHER_STEPS = "FOLDER/steps.jsonl", "FOLDER/other_steps.jsonl"
STORED, OTHER_STORED = "FOLDER/stored.parquet", "FOLDER/other.parquet"

SEEN_ELSEWHERE = {
    "checkpoint_every", "endpoint", "max_staleness", "in_flight", "scheduler", "mixture", "corrections", "guard",
    "carry_moments", "histories", "aim", "replay", "least_gap",
}  # fmt: skip
"""Options that leave no trace in an unbroken run of a moment; other tests of this folder see what they do."""


class Change(NamedTuple):
    to: Any
    where: dict[str, Any] = {}


SHARED = {
    "optimiser": Change("muon"),
    "learning_rate": Change(5e-3),
    "num_warmup": Change(2),
    "decay": Change("constant"),
    "decay_share": Change(1.0, {"decay": "warmup_stable_decay"}),
    "weight_decay": Change(0.5),
    "max_grad_norm": Change(1e-3),
    "ema_decay": Change(0.5),
}
BASES: dict[str, dict[str, Any]] = {
    "sft": {"num_examples": 6, "batch_size": 2, "learning_rate": 1e-2, "num_warmup": 0},
    "rl": {
        "num_steps": 2, "prompts_per_step": 2, "group_size": 2, "max_new_tokens": 5, "objective": "reinforce",
        "objective_options": {"baseline": 0.5}, "learning_rate": 1e-2, "num_warmup": 0,
    },
    "preference": {"data": OTHER_PAIRS, "batch_size": 2, "learning_rate": 1e-2, "num_warmup": 0},
    "reward_model": {"data": OTHER_PAIRS, "batch_size": 2, "learning_rate": 1e-2, "num_warmup": 0},
    "process_reward_model": {"data": STEPS, "batch_size": 2, "learning_rate": 1e-2, "num_warmup": 0},
    "offline": {"data": STORED, "batch_size": 2, "learning_rate": 1e-2, "num_warmup": 0},
    "distill": {
        "teacher": "TEACHER", "num_steps": 2, "prompts_per_step": 2, "group_size": 2, "max_new_tokens": 5,
        "learning_rate": 1e-2, "num_warmup": 0,
    },
    "rejection": {"num_tasks": 3, "num_samples": 3, "batch_size": 2, "learning_rate": 1e-2, "num_warmup": 0},
}  # fmt: skip
DOMAINS = {"rejection": {"domain": "tests.stages.hashed_domain:right", "when_check_fails": "train_anyway"}}
"""Of stages that need right replies of a random model."""
TWICE = {"objective": "reinforce_pp", "objective_options": {}, "updates_per_step": 2, "entropy_bonus": 0.5}
PULLED = {"kl_coefficient": 0.5}
CHANGES: dict[str, dict[str, Change]] = {
    "sft": SHARED | {"num_examples": Change(4), "num_epochs": Change(2), "batch_size": Change(3)},
    "rl": SHARED
    | {
        "decay": Change("cosine"),
        "num_steps": Change(3),
        "prompts_per_step": Change(3),
        "group_size": Change(3),
        "updates_per_step": Change(1, TWICE),
        "max_draws_factor": Change(1.0, {"objective": "dapo", "objective_options": {}}),
        "temperature": Change(0.5),
        "max_new_tokens": Change(3),
        "objective": Change("reinforce_pp", {"objective_options": {}, "kl_in": "reward", "kl_coefficient": 0.5}),
        "objective_options": Change({"baseline": 0.25}),
        "critic": Change({"num_passes": 2}, {"objective": "ppo", "objective_options": {}, "overlong_cache": 5}),
        "aggregation": Change("token_mean"),
        "correction": Change("none"),
        "correction_options": Change({"cap": 1.0}),
        "mismatch_limit": Change(1e-12),
        "overlong_filter": Change(True),
        "overlong_cache": Change(5),
        "kl_in": Change("reward", PULLED),
        "kl_kind": Change("k3", PULLED),
        "kl_coefficient": Change(0.5),
        "kl_top_k": Change(2, PULLED | {"kl_kind": "top_k"}),
        "entropy_bonus": Change(0.5),
        "entropy_floor": Change(1e3),
        "max_interactions": Change(6),
        "credit": Change("turn", {"objective": "grpo", "objective_options": {}}),
    },
    "preference": SHARED
    | {
        "data": Change(PAIRS),
        "eval_data": Change(HELD_OUT),
        "loss": Change("ipo"),
        "loss_options": Change({"beta": 0.5}),
        "num_epochs": Change(2),
        "batch_size": Change(1),
    },
    "reward_model": SHARED
    | {
        "data": Change(PAIRS),
        "eval_data": Change(HELD_OUT),
        "centering": Change(0.5),
        "num_epochs": Change(2),
        "batch_size": Change(1),
    },
    "process_reward_model": SHARED
    | {
        "data": Change(OTHER_STEPS),
        "eval_data": Change("FOLDER/held_out_steps.jsonl"),
        "num_classes": Change(3),
        "separator": Change("|"),
        "num_epochs": Change(2),
        "batch_size": Change(1),
    },
    "offline": SHARED
    | {
        "data": Change(OTHER_STORED),
        "objective": Change("awr"),
        "objective_options": Change({"beta_policy": 0.5}),
        "aggregation": Change("token_mean"),
        "temperature": Change(0.5),
        "num_epochs": Change(2),
        "batch_size": Change(1),
        "kl_kind": Change("k3", PULLED),
        "kl_coefficient": Change(0.5),
    },
    "distill": SHARED
    | {
        "decay": Change("cosine"),
        "teacher": Change("tiny"),
        "objective": Change("gkd"),
        "ratio_max": Change(1.0, {"updates_per_step": 2, "learning_rate": 0.1}),
        "beta": Change(0.1, {"objective": "gkd"}),
        "student_share": Change(0.0, {"objective": "gkd"}),
        "num_steps": Change(3),
        "prompts_per_step": Change(3),
        "group_size": Change(3),
        "updates_per_step": Change(2),
        "temperature": Change(0.5),
        "max_new_tokens": Change(3),
        "mismatch_limit": Change(1e-12),
    },
    "rejection": SHARED
    | {
        "num_tasks": Change(4),
        "num_samples": Change(2),
        "keep_per_task": Change(1),
        "temperature": Change(0.5),
        "num_epochs": Change(2),
        "batch_size": Change(1),
    },
}


def options_of(stage: str) -> set[str]:
    return set(plugins.load("stages", stage).Config.model_fields)


CASES = [(stage, option) for stage in CHANGES for option in sorted(options_of(stage) & CHANGES[stage].keys())]


def test_every_option_of_every_stage_that_trains_has_a_line() -> None:
    training = {name for name in plugins.names("stages") if issubclass(plugins.load("stages", name).Config, Updates)}
    assert training == set(CHANGES)
    for stage in training:
        assert options_of(stage) - SEEN_ELSEWHERE <= set(CHANGES[stage]) <= options_of(stage), stage


def test_what_is_seen_elsewhere_is_seen_there() -> None:
    others = [file for file in Path(__file__).parent.glob("test_*.py") if file != Path(__file__)]
    text = "".join(file.read_text(encoding="utf-8") for file in others)
    for option in SEEN_ELSEWHERE & {name for stage in CHANGES for name in options_of(stage)}:
        assert option in text, option


@cache
def left_by(stage: str, options: str) -> Any:
    """What a run of one stage leaves, or the error that ends it."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        given = json.loads(_placed(options, folder))
        domain = DOMAINS.get(stage, {"domain": "arithmetic", "options": {"largest": 5}})
        plain = {"name": "o", "threads": 1, "model": {"name": "tiny"}, "engine": {"options": {"path": "torch"}}}
        recipe = Recipe.model_validate(
            plain | {"tasks": [domain | {"num_eval": 2}], "stages": [{"use": stage, **given}]}
        )
        try:
            run_recipe(recipe, folder / "runs", resume=False)
        except BurnishError as error:
            return type(error).__name__
        return _left(folder / "runs" / "o", stage)


def _left(run: Path, stage: str) -> Any:
    rows = [
        {name: value for name, value in row.values.items() if not name.endswith("_s")}
        for row in metrics.read(run / "metrics.jsonl")
    ]
    weights = sorted(run.glob(f"**/0-{stage}/m*.safetensors"))  # a checkpoint's masters, or a reward model
    assert weights
    sums = [{name: value.double().sum().item() for name, value in load_file(path).items()} for path in weights]
    return [rows, sums]


def _placed(options: str, folder: Path) -> str:
    """The options with what they name written into a folder."""
    _write_data(folder)
    teacher = _teacher(folder) if "TEACHER" in options else ""
    return options.replace("FOLDER", str(folder)).replace("TEACHER", teacher)


def _write_data(folder: Path) -> None:
    pairs = [{"prompt": f"{n}+1=", "chosen": f"{n + 1}", "rejected": f"maybe {n}"} for n in (11, 12, 13, 14)]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    for name, numbers in (("steps", (11, 12, 13)), ("other_steps", (11, 12)), ("held_out_steps", (21, 22))):
        lines = [{"prompt": f"{n}+1=", "steps": ["so", str(n)], "labels": [1, n % 2]} for n in numbers]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for name, reply in (("stored", "3"), ("other", "four")):
        members = [
            trajectory(f"{n}+1=", text, score, member=member)
            for n in (11, 12)
            for member, (text, score) in enumerate([(str(n + 1), 1.0), (reply, 0.0)])
        ]
        trajectory_files.write(folder / f"{name}.parquet", members)


def _teacher(folder: Path) -> str:
    """A model that is not the student's beginning."""
    loaded = load("tiny")
    export(loaded, folder / "teacher", {name: 1.5 * value for name, value in loaded.model.state_dict().items()})
    return str(folder / "teacher")


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize(("stage", "option"), CASES, ids=[f"{stage}-{option}" for stage, option in CASES])
def test_changing_an_option_alone_changes_what_a_run_leaves(stage: str, option: str) -> None:
    change = CHANGES[stage][option]
    before = BASES[stage] | change.where
    plain = left_by(stage, json.dumps(before))
    assert not isinstance(plain, str), plain
    assert left_by(stage, json.dumps(before | {option: change.to})) != plain
