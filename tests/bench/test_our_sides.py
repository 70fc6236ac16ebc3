"""Our side of each contest still runs: bench code follows what it measures."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from bench.contest import race

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def small_model(tmp_path_factory):
    """Two random layers under the starter's tokenizer and vocabulary."""
    starter, folder = race.model_folder(None), tmp_path_factory.mktemp("small")
    config = AutoConfig.from_pretrained(starter)
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2}
    config.update(sizes | {"num_key_value_heads": 1, "head_dim": 32})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(starter).save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("module", "shape", "timed"),
    [
        ("sample_burnish", {"cases": [["shared", 2, 2, 3], ["one", 1, 1, 1]]}, {"shared", "one"}),
        ("continuous_burnish", {"requests": 4, "shortest": 2, "longest": 5}, {"all"}),
        ("train_burnish", {"workload": "sft", "trains": "full", "tokens": 100, "checkpointing": True}, {"update"}),
        ("train_burnish", {"workload": "grpo", "trains": "lora", "tokens": 100, "checkpointing": False}, {"update"}),
        ("step_burnish", {"prompts": 1, "new": 4}, {"sample", "update", "step"}),
    ],
)
def test_our_side_reports_what_the_contest_reads(module, shape, timed, small_model):
    given = {"threads": 1, "dtype": "float32", "model": str(small_model), **shape}
    found = race.race([race.Side(name="Burnish", module=module)], given, num_rounds=1)["Burnish"]
    assert set(found.turns[0]["wall_s"]) == timed
    assert all(found.wall_s(name) > 0 and found.cpu_s(name) > 0 for name in timed)
    assert found.number("peak_mb") > 100
