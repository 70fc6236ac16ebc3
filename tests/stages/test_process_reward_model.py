"""Stage `process_reward_model`: a head on a copy of the policy's body says which steps of a reply are right."""

import json
from pathlib import Path

import pytest
import torch

from burnish.core import metrics
from burnish.core.config import validate
from burnish.core.errors import ConfigError
from burnish.core.recipe import Recipe
from burnish.models.heads import load_head
from burnish.stages.check import check_recipe
from burnish.stages.process_reward_model import Item, StepsLine, _loss, _measure, item
from burnish.stages.runner import run_recipe
from tests.fakes import tiny_chat


def line(number: int, *, wrong: int | None = None) -> dict[str, object]:
    """A reply of three steps, of which one may say `no`."""
    steps = ["yes" if at != wrong else "no" for at in range(3)]
    return {"prompt": f"{number}+1=", "steps": steps, "labels": [int(step == "yes") for step in steps]}


def recipe(folder: Path, **options: object) -> Recipe:
    for name, numbers in (("train", range(50, 62)), ("eval", range(70, 74))):
        rows = [line(number, wrong=number % 4 if number % 4 < 3 else None) for number in numbers]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    stage = {
        "use": "process_reward_model", "data": str(folder / "train.jsonl"), "eval_data": str(folder / "eval.jsonl"),
        "num_epochs": 12, "batch_size": 6, "learning_rate": 1e-2, "num_warmup": 0, **options,
    }  # fmt: skip
    plain = {"name": "p", "threads": 1, "model": {"name": "tiny"}, "engine": {"options": {"path": "torch"}}}
    tasks = [{"domain": "arithmetic", "num_eval": 2, "options": {"largest": 5}}]
    return Recipe.model_validate(plain | {"tasks": tasks, "stages": [stage]})


def test_a_step_is_read_behind_its_last_token() -> None:
    chat = tiny_chat()
    given = item(chat, StepsLine.model_validate(line(7)), "|")
    prompt = chat.prompt_ids(StepsLine.model_validate(line(7)).messages)
    ends = [place for place, is_marked in enumerate(given.row.was_sampled) if is_marked]
    assert given.row.token_ids[: len(prompt)] == prompt
    assert [chat.decode(given.row.token_ids[len(prompt) : end]) for end in ends] == ["yes|", "yes|yes|", "yes|yes|yes|"]
    assert given.labels == (1, 1, 1)


def test_the_loss_is_the_cross_entropy_of_each_step_and_the_first_error_is_of_replies() -> None:
    row = item(tiny_chat(), StepsLine.model_validate(line(7)), "\n").row
    items = [Item(row, (1, 0, 1)), Item(row, (1, 1, 1))]
    right, wrong = [0.0, 2.0], [2.0, 0.0]
    outputs = [torch.tensor([right, right, wrong]), torch.tensor([right, right, right])]
    likely, unlikely = torch.tensor([2.0, 0.0]).log_softmax(-1).tolist()
    assert float(_loss(items, outputs)) == pytest.approx(-(4 * likely + 2 * unlikely))
    measured = _measure(items, outputs)
    assert measured["accuracy"] == pytest.approx(4 / 6)
    assert measured["first_error"] == 0.5
    assert measured["loss"] == pytest.approx(-(4 * likely + 2 * unlikely) / 6)


def test_it_finds_wrong_steps_that_it_never_saw(tmp_path: Path) -> None:
    run_recipe(recipe(tmp_path), tmp_path / "runs", resume=False)
    rows = [row.values for row in metrics.read(tmp_path / "runs" / "p" / "metrics.jsonl")]
    assert rows[-1]["eval/accuracy"] == 1.0
    assert rows[-1]["eval/first_error"] == 1.0
    assert rows[-1]["eval/loss"] < 0.2 < rows[0]["eval/loss"]
    head = load_head(tmp_path / "runs" / "p" / "reward" / "0-process_reward_model")
    assert head.score.out_features == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": [1, 1]}, "3 steps have 2 labels"),
        ({"steps": ["a", "", "b"]}, "a step is empty"),
        ({"steps": [], "labels": []}, "steps"),
        ({"labels": None}, "labels"),
    ],
)
def test_a_line_that_is_no_labelled_reply_is_named(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        validate(StepsLine, line(1) | changes, "steps.jsonl:1")


def test_a_label_beyond_the_classes_is_refused_before_the_run(tmp_path: Path) -> None:
    given = recipe(tmp_path)
    (tmp_path / "train.jsonl").write_text(json.dumps(line(50) | {"labels": [0, 1, 2]}) + "\n")
    with pytest.raises(ConfigError, match="labels lie from 0 to 2, and num_classes is 2"):
        check_recipe(given)
    three = given.model_copy(update={"stages": [given.stages[0] | {"num_classes": 3}]})
    assert check_recipe(three)
