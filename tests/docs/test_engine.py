"""docs/engine.md: the recipe is read, each option is in the table with its default, the example runs."""

import json
import re
import tomllib
from pathlib import Path

import torch

from burnish.core.recipe import EngineConfig
from burnish.engine.local import Config, open_engine
from burnish.models.lora import add_lora
from burnish.models.peft import save_adapter
from tests.fakes import random_model, tiny_chat

TEXT = (Path(__file__).parent.parent.parent / "docs" / "engine.md").read_text()


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def test_the_recipe_is_read_and_the_table_has_each_option_with_its_default():
    config = EngineConfig.model_validate(tomllib.loads(_blocks("toml")[0])["engine"])
    Config.model_validate(config.options)
    told: dict[str, object] = {}
    for names, default in re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| `?([^`|]+)`? \|", TEXT, re.MULTILINE):
        told |= {name: json.loads(default) for name in re.findall(r"\w+", names)}
    assert told == {name: field.default for name, field in Config.model_fields.items()} | {"max_rows": 64}


def test_the_example_serves_an_adapter(tmp_path: Path):
    trained = random_model("llama")
    add_lora(trained, rank=2, alpha=4, targets="all-linear", seed=0)
    save_adapter(trained, tmp_path)
    namespace: dict = {}
    exec(_blocks("python")[0], namespace)
    engine = open_engine(random_model("llama"), tiny_chat(), max_rows=2, version=lambda: 0, options={"path": "torch"})
    number = namespace["serve"](engine, tmp_path, (1, 2, 3))
    assert engine.step()[0].request == number
    assert not torch.is_inference_mode_enabled()
