"""Stage `offline`: from stored trajectories to a better policy, with nothing that is held out and nothing unjudged."""

import json
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from rich.console import Console

from burnish.core import metrics
from burnish.core.errors import ConfigError
from burnish.core.recipe import Recipe, read_recipe
from burnish.core.seeds import derive
from burnish.core.types import Step, Trajectory
from burnish.data import trajectory_files
from burnish.rollout.mixture import held_out
from burnish.stages import offline_data
from burnish.stages.check import check_recipe
from burnish.stages.runner import run_recipe
from burnish.stages.session import open_sources
from tests.fakes import tiny_chat
from tests.stages.stored import trajectory

RECIPE = Path(__file__).parents[2] / "recipes" / "offline_tiny.toml"
VOCABULARY = 259


GOOD, BAD = trajectory("1+1=", "2", 1.0), trajectory("1+1=", "3", 0.0, member=1)


def stored(folder: Path, *members: Trajectory, name: str = "some.parquet") -> Path:
    trajectory_files.write(folder / name, members)
    return folder / name


def read(paths: list[Path], held_out: frozenset[str] = frozenset()) -> offline_data.Stored:
    return offline_data.read(paths, tiny_chat(), VOCABULARY, held_out)


def one_stage(data: Path, /, **options: object) -> Recipe:
    stage = {"use": "offline", "data": str(data), "batch_size": 2, "num_epochs": 2, "checkpoint_every": 2, **options}
    plain = {"name": "o", "threads": 1, "model": {"name": "tiny"}, "stages": [stage]}
    return Recipe.model_validate(plain | {"tasks": [{"domain": "arithmetic", "num_eval": 2}]})


def test_replies_to_a_prompt_are_a_group_in_whichever_files_they_are(tmp_path: Path) -> None:
    one = stored(tmp_path, GOOD, trajectory("2+2=", "4", 1.0), name="a.parquet")
    other = stored(tmp_path, replace(BAD, group_id="9/9", oldest_version=0), name="b.parquet")
    found = read([one, other])
    assert [[member.reply for member in group.members] for group in found.groups] == [["2", "3"]]
    assert found.counts == offline_data.Counts(3, 0, 0, 1, 2)


def test_what_has_no_score_and_what_is_held_out_never_trains(tmp_path: Path) -> None:
    secret = [trajectory("4+4=", "8", 1.0), trajectory("4+4=", "9", 0.0)]
    path = stored(tmp_path, GOOD, BAD, trajectory("1+1=", "5", None), *secret)
    found = read([path], frozenset([secret[0].prompt_hash]))
    assert [[member.reply for member in group.members] for group in found.groups] == [["2", "3"]]
    assert found.counts == offline_data.Counts(5, 1, 2, 0, 2)


def silent(member: Trajectory) -> Trajectory:
    return replace(member, logprobs=(0.0,) * len(member.logprobs))


def test_replies_without_log_probabilities_are_for_the_objective_that_reads_none(tmp_path: Path) -> None:
    path = stored(tmp_path, silent(GOOD), silent(BAD))
    with pytest.raises(ConfigError, match=r"objective 'oapl' reads the log-probabilities .* all of the 2 stored ones"):
        run_recipe(one_stage(path), tmp_path / "oapl", resume=False)
    run_recipe(one_stage(path, objective="awr"), tmp_path / "awr", resume=False)


def test_an_episode_that_never_began_is_counted_and_does_not_spoil_the_others(tmp_path: Path) -> None:
    empty: dict[str, Any] = {"token_ids": (), "was_sampled": (), "logprobs": (), "reply": ""}
    lost = replace(trajectory("1+1=", "", None, member=2), **empty)
    assert read([stored(tmp_path, GOOD, BAD, lost)]).counts == offline_data.Counts(3, 1, 0, 0, 2)


def test_replies_that_scored_alike_stay_where_nothing_compares_them(tmp_path: Path) -> None:
    alike = [trajectory("2+2=", "4", 1.0), trajectory("2+2=", "four", 1.0, member=1)]
    found = offline_data.read(
        [stored(tmp_path, GOOD, *alike)], tiny_chat(), VOCABULARY, frozenset(), needs_signal=False
    )
    assert sorted(len(group.members) for group in found.groups) == [1, 2]
    assert found.counts == offline_data.Counts(3, 0, 0, 0, 3)


def test_nothing_to_learn_is_an_error_that_counts_why(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing to learn from the 2 stored replies \(2 stored, 0 without score"):
        read([stored(tmp_path, GOOD, replace(GOOD, member=1))])


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (replace(GOOD, reply="17"), "reads as '2' by this model's tokenizer and was stored as '17'"),
        (
            replace(GOOD, steps=(Step(first=len(GOOD.token_ids) - 2, end=len(GOOD.token_ids), reply="17"),)),
            "reads in turn 0 as '2' by this model's tokenizer and was stored as '17'",
        ),
        (replace(GOOD, token_ids=(999, *GOOD.token_ids[1:])), "beyond this model's vocabulary of 259"),
        (replace(GOOD, logprobs=(0.5,) * len(GOOD.logprobs)), "without a proper log-probability"),
        (replace(GOOD, was_sampled=(False,) * len(GOOD.logprobs)), "no sampled token behind a prompt"),
    ],
)
def test_a_reply_that_cannot_train_here_is_named(broken: Trajectory, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        read([stored(tmp_path, GOOD, BAD, broken)])


def test_a_file_of_something_else_and_an_empty_folder_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_text("no")
    with pytest.raises(ConfigError, match="cannot read trajectories from"):
        read(offline_data.files(tmp_path / "a.parquet"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"no trajectories in .*leave data out to use this run's own"):
        offline_data.files(tmp_path / "empty")


@pytest.mark.parametrize(
    "stage", [{"use": "rl", "num_steps": 1}, {"use": "distill", "num_steps": 1, "teacher": "tiny"}]
)
def test_another_temperature_than_the_run_sampled_at_is_refused(stage: dict[str, object], tmp_path: Path) -> None:
    run = tmp_path / "r"
    (run / "trajectories").mkdir(parents=True)
    plain = {"name": "r", "tasks": [{"domain": "arithmetic"}], "stages": [stage | {"temperature": 0.7}]}
    (run / "recipe.resolved.json").write_text(json.dumps(Recipe.model_validate(plain).model_dump(mode="json")))
    stored(run / "trajectories", GOOD, name=f"0-{stage['use']}-step-00000.parquet")
    paths = offline_data.files(run)
    offline_data.check_temperature(paths, 0.7)
    with pytest.raises(ConfigError, match=r"sampled at temperature 0.7.*set its temperature to 0.7"):
        offline_data.check_temperature(paths, 1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "rloo"}, "takes replies to be of the policy that trains.*'oapl'"),
        ({"objective": "ppo"}, "stage 'offline' cannot use it; choose for example 'oapl'"),
        ({"objective": "dr_grpo"}, "choose for example aggregation 'token_mean'"),
        ({"objective_options": {"ratio_to_sampler": False}}, "leave ratio_to_sampler out"),
        ({"kl_kind": "k3"}, "kl_kind does nothing while kl_coefficient is 0"),
        ({"data": "nowhere"}, "no file or folder 'nowhere'.*leave it out"),
    ],
)
def test_options_that_do_not_fit_are_refused_at_the_door(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_recipe(one_stage(RECIPE.parent, **options))


@pytest.mark.parametrize("objective", ["grpo@offline", "dapo"])
def test_the_first_ratio_is_to_the_sampler_whichever_objective_takes_it(objective: str, tmp_path: Path) -> None:
    path = stored(tmp_path, GOOD, BAD)
    run_recipe(one_stage(path, objective=objective, num_warmup=0), tmp_path, resume=False)
    rows = metrics.read(tmp_path / "o" / "metrics.jsonl")
    assert len(rows) == 2
    assert rows[0].values["ratio"] < 0.9  # a random model finds these tokens less likely than exp(-0.5)
    assert rows[0].values["kl_sampler"] > 0.1
    assert rows[0].values["tokens_trained"] == 4


def test_a_run_leaves_its_own_held_out_prompts_out(tmp_path: Path) -> None:
    recipe = one_stage(tmp_path)
    sources = open_sources(recipe.tasks, recipe.sandbox, Console(quiet=True))
    secret = held_out(sources, derive(recipe.seed, "eval"))[0].task.messages[0].content
    stored(tmp_path, trajectory(secret, "1", 1.0), trajectory(secret, "2", 0.0, member=1))
    with pytest.raises(ConfigError, match=r"2 stored, 0 without score, 2 held out"):
        run_recipe(recipe, tmp_path / "runs", resume=False)


def curve(runs: Path, stage: str) -> list[float]:
    return [
        r.values["reward/arithmetic"] for r in metrics.read(runs / "offline_tiny" / "metrics.jsonl") if r.stage == stage
    ]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("objective", ["oapl", "awr", "grpo@offline", "dapo"])
def test_learning_from_stored_replies_raises_the_reward(objective: str, tmp_path: Path) -> None:
    run_recipe(read_recipe(RECIPE, [f"stages.2.objective={objective}"]), tmp_path, resume=False)
    assert fmean(curve(tmp_path, "3-rl")) > fmean(curve(tmp_path, "1-rl")) + 0.1
