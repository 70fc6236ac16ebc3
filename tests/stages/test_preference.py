"""Stage `preference`: from stored pairs and labelled replies to a policy that prefers the better ones."""

import json
from pathlib import Path

import pytest

from burnish.core import metrics
from burnish.core.errors import ConfigError
from burnish.core.recipe import read_recipe
from burnish.stages.check import check_recipe
from burnish.stages.preference_data import PairLine, ReplyLine, read, read_split
from burnish.stages.runner import run_recipe

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "recipes" / "preference_tiny.toml"
DATA = ROOT / "recipes" / "preference_tiny.jsonl"
EVAL_DATA = ROOT / "recipes" / "preference_tiny_eval.jsonl"


@pytest.fixture(autouse=True)
def _from_the_folder_above_the_recipes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def curves(runs: Path, *assignments: str, resume: bool = False) -> list[metrics.Row]:
    run_recipe(read_recipe(RECIPE, list(assignments)), runs, resume=resume)
    return [row for row in metrics.read(runs / "preference_tiny" / "metrics.jsonl") if row.stage == "0-preference"]


def labelled(folder: Path, source: Path) -> str:
    """The pairs as replies with labels."""
    pairs = [json.loads(line) for line in source.read_text().splitlines()]
    rows = [
        {"prompt": pair["prompt"], "reply": pair[key], "label": key == "chosen"}
        for pair in pairs
        for key in ("chosen", "rejected")
    ]
    path = folder / source.name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def held_out(rows: list[metrics.Row], name: str) -> list[float]:
    return [row.values[f"eval/{name}"] for row in rows if f"eval/{name}" in row.values]


def test_dpo_raises_the_margin_of_pairs_that_it_never_saw(tmp_path: Path) -> None:
    rows = curves(tmp_path)
    margins = held_out(rows, "margin")
    assert margins[0] == pytest.approx(0.0, abs=1e-6)  # the reference is the beginning
    assert rows[0].values["loss"] == pytest.approx(0.6931, abs=1e-3)
    assert margins[-1] > 0.05, margins
    assert held_out(rows, "accuracy")[-1] > 0.6
    assert rows[-2].values["loss"] < 0.6


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["dpo@cdpo", "dpo@robust", "ipo@sum", "ipo@mean", "orpo", "simpo", "slic", "slic@trl"])
def test_every_loss_of_pairs_raises_its_margin(loss: str, tmp_path: Path) -> None:
    margins = held_out(curves(tmp_path, f"stages.0.loss={loss}"), "margin")
    assert margins[-1] > margins[0], margins


@pytest.mark.slow
def test_kto_raises_its_margin_from_labelled_replies(tmp_path: Path) -> None:
    data, held = labelled(tmp_path, DATA), labelled(tmp_path, EVAL_DATA)
    rows = curves(tmp_path, "stages.0.loss=kto", f"stages.0.data={data}", f"stages.0.eval_data={held}")
    assert held_out(rows, "margin")[-1] > 0.01


@pytest.mark.slow
def test_packing_changes_nothing(tmp_path: Path) -> None:
    short = ["stages.0.num_epochs=1"]
    whole = curves(tmp_path / "whole", *short)
    cut = curves(tmp_path / "cut", *short, "learner.max_pack_tokens=80")
    for one, other in zip(whole, cut, strict=True):
        for name in ("loss", "margin", "accuracy", "grad_norm", "eval/margin"):
            if name in one.values:
                assert other.values[name] == pytest.approx(one.values[name], abs=1e-4), (one.step, name)


@pytest.mark.parametrize("use", ["preference", "reward_model"])
@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        (["data=FOLDER/nowhere.jsonl"], "nowhere.jsonl"),
        (["data=FOLDER/broken.jsonl"], "broken.jsonl.*'rejected' is missing"),
        (["eval_data=FOLDER/broken.jsonl"], "broken.jsonl.*'rejected' is missing"),
        (["eval_data=recipes/preference_tiny.jsonl"], "measures what was trained on"),
    ],
)
def test_the_check_reads_the_data(use: str, assignments: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "broken.jsonl").write_text('{"prompt": "1+1=", "chosen": "2"}\n')
    put = [f"stages.0.{given}".replace("FOLDER", str(tmp_path)) for given in assignments]
    recipe = read_recipe(RECIPE, put)
    stage = {key: value for key, value in recipe.stages[0].items() if use == "preference" or key != "loss"}
    with pytest.raises(ConfigError, match=message):
        check_recipe(recipe.model_copy(update={"stages": [stage | {"use": use}]}))


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        (["stages.0.loss_options={beta=0}"], "dpo: beta is above 0; got 0"),
        (["stages.0.loss=dop"], "no plugin 'dop' in preferences; there are: dpo, ipo, kto, orpo, simpo, slic"),
        (["stages.0.loss=dpo@trl"], "'dpo' has no dialect 'trl'; there are: dpo@cdpo, dpo@robust"),
        (["stages.0.loss_options={beta='x'}"], "'beta' expects a float, got 'x'"),
        (["stages.0.loss=kto", "stages.0.loss_options={z0=1.0}"], "'z0' is estimated from each update"),
        (["stages.0.loss_options={debias=true}"], "label_smoothing, their share, is 0"),
        (["stages.0.loss_options={debias=true, label_smoothing=0.5}"], "below 0.5 .* with debias; got 0.5"),
        (["stages.0.loss_options={label_smoothing=7.0}"], "at least 0 and below 1; got 7.0"),
        (["stages.0.loss=kto", "stages.0.batch_size=1"], "batch_size is at least 2"),
    ],
)
def test_options_that_do_not_fit_are_refused_at_the_door(assignments: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_recipe(read_recipe(RECIPE, assignments))


def test_a_pair_that_no_pack_can_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"the longest item has \d+ tokens, which do not fit a pack of 20"):
        curves(tmp_path, "learner.max_pack_tokens=20")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"prompt": "a", "chosen": "b"}', r"p.jsonl:1: 'rejected' is missing; it is required"),
        ('{"prompt": "a", "chosen": "b", "rejected": "b"}', "same text, so that nothing is preferred"),
        ('{"prompt": "", "chosen": "b", "rejected": "c"}', "expected a text, or a list of messages"),
        ('{"prompt": "a", "chosen": "b", "rejected": "c", "label": true}', "'label'"),
        ("[1]", "p.jsonl:1: expected an object with names"),
        ("{", "p.jsonl:1: not JSON"),
        ("", "the file has no rows; expected one JSON object a line, with prompt, chosen, rejected"),
    ],
)
def test_a_line_that_is_no_pair_is_named(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(line)
    with pytest.raises(ConfigError, match=message):
        read(str(path), PairLine)


def test_a_pair_an_update_trains_each_pair_and_a_dialect_may_need_the_reference(tmp_path: Path) -> None:
    data = tmp_path / "three.jsonl"
    data.write_text("".join(DATA.read_text().splitlines(keepends=True)[:3]))
    settings = ["stages.0.batch_size=1", "stages.0.num_epochs=1", "stages.0.loss=slic@trl", f"stages.0.data={data}"]
    rows = curves(tmp_path, *settings, "engine.options={path='torch'}")
    assert [row.step for row in rows if "loss" in row.values] == [0, 1, 2]
    assert rows[0].values["loss"] == pytest.approx(1.0)  # the margin that is asked for; the reference is the beginning


def test_a_prompt_that_measures_does_not_train() -> None:
    with pytest.raises(ConfigError, match=r"80 of its prompts are in .* measures what was trained on"):
        read_split(str(DATA), str(DATA), PairLine, frozenset())
    whole = read_split(str(DATA), str(EVAL_DATA), PairLine, frozenset())
    evaluated = frozenset(line.prompt_hash for line in whole.train[:4])
    split = read_split(str(DATA), str(EVAL_DATA), PairLine, evaluated)
    assert (split.train, split.num_left_out) == (whole.train[4:], 4)
    with pytest.raises(ConfigError, match="every prompt is a held-out task"):
        read_split(str(DATA), "", PairLine, frozenset(line.prompt_hash for line in whole.train))


def test_a_prompt_may_be_a_conversation(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    turns = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    path.write_text(json.dumps({"prompt": turns, "reply": "r", "label": False}))
    (line,) = read(str(path), ReplyLine)
    assert [(m.role, m.content) for m in line.messages] == [("system", "s"), ("user", "u")]
