"""Stage `reward_model`: a head on a copy of the policy's body learns to tell preferred replies."""

import copy
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from burnish.core import metrics
from burnish.core.recipe import read_recipe
from burnish.learner.scalar import ScalarModel
from burnish.models.heads import load_head, new_head
from burnish.models.tiny import tiny_model
from burnish.stages.runner import EXIT_PROMOTED, run_recipe
from tests.fakes import random_model

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "recipes" / "reward_model_tiny.toml"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        runs = tmp_path_factory.mktemp("runs")
        assert run_recipe(read_recipe(RECIPE), runs, resume=False) == EXIT_PROMOTED
    return runs / "reward_model_tiny"


def held_out(folder: Path, name: str) -> list[float]:
    rows = metrics.read(folder / "metrics.jsonl")
    return [row.values[f"eval/{name}"] for row in rows if f"eval/{name}" in row.values]


def test_it_tells_pairs_that_it_never_saw(finished: Path) -> None:
    assert held_out(finished, "accuracy")[-1] > 0.9
    assert held_out(finished, "margin")[-1] > held_out(finished, "margin")[0] + 1.0
    assert abs(held_out(finished, "reward")[-1]) < 1.0  # centred


def test_what_it_wrote_scores_replies_with_plain_transformers(finished: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(finished / "reward" / "0-reward_model")
    body = AutoModelForCausalLM.from_pretrained(finished / "reward" / "0-reward_model", dtype=torch.float32).base_model
    head = load_head(finished / "reward" / "0-reward_model")

    def score(reply: str) -> float:
        turns = [{"role": "user", "content": "2+3="}, {"role": "assistant", "content": reply}]
        text = tokenizer.apply_chat_template(turns, tokenize=False).rstrip("\n")
        ids = tokenizer.encode(text, add_special_tokens=False, return_tensors="pt")
        with torch.no_grad():
            return float(head(body(ids).last_hidden_state[0, -1:]))

    assert score("It is 5.") > score("maybe 5")


def test_with_adapters_it_writes_those_that_it_trained_and_not_the_policys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    short = [
        "engine.options={path='torch'}",
        "model.lora={rank=2}",
        "stages.0.num_epochs=1",
        "stages.0.batch_size=40",
        "stages.0.eval_data=''",
    ]
    run_recipe(read_recipe(RECIPE, short), tmp_path, resume=False)
    written = load_file(tmp_path / "reward_model_tiny" / "reward" / "0-reward_model" / "model.safetensors")
    base = tiny_model().state_dict()
    moved = [name for name, value in written.items() if not torch.equal(value, base[name])]
    assert len(moved) == 2 * 7  # the linear layers of two layers


def test_a_body_in_bfloat16_starts_from_the_policys_masters() -> None:
    exact = random_model("llama").requires_grad_(True)
    rounded = copy.deepcopy(exact).to(torch.bfloat16)
    model = ScalarModel(rounded, new_head(rounded, "reward"), dict(rounded.named_parameters()))
    given = {name: parameter.detach() for name, parameter in exact.named_parameters()}
    name = "model.layers.0.mlp.up_proj.weight"
    assert not model.weights.masters[name].equal(given[name])
    model.weights.adopt(given)
    assert all(model.weights.masters[name].equal(value) for name, value in given.items())
    assert rounded.get_parameter(name).equal(given[name].bfloat16())


def test_two_stages_write_two_reward_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    recipe = read_recipe(RECIPE, ["engine.options={path='torch'}"])
    stage = recipe.stages[0] | {"num_epochs": 1, "batch_size": 40, "eval_data": ""}
    run_recipe(recipe.model_copy(update={"stages": [stage, stage]}), tmp_path, resume=False)
    written = tmp_path / "reward_model_tiny" / "reward"
    assert sorted(path.parent.name for path in written.glob("*/head.safetensors")) == [
        "0-reward_model", "1-reward_model",
    ]  # fmt: skip


def test_the_policy_goes_on_unchanged_and_no_checkpoint_of_a_step_is_left(finished: Path) -> None:
    assert [path.name for path in (finished / "checkpoints").iterdir()] == ["base"]
