"""vLLM in this process, for real: a program in an interpreter that has it, over the starter model in float32."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def told(starter) -> dict[str, list[dict[str, Any]]]:
    """What the engine sampled at first, again, and after an update."""
    python = os.environ.get("BURNISH_VLLM_PYTHON")
    if not python:
        pytest.skip("no BURNISH_VLLM_PYTHON: run `make test-vllm`, or name an interpreter that has vllm")
    environment = os.environ | {
        "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_CPU_KVCACHE_SPACE": "1",
    }  # fmt: skip
    command = [python, "-m", "tests.engine.backends.inside_vllm", str(starter.master_folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith('{"first"')]  # vLLM prints beside it
    return json.loads(line)


@pytest.mark.parametrize("when", ["first", "moved"])
def test_log_probabilities_are_the_live_models_before_and_after_an_update(told, when):
    for sample in told[when]:
        assert sample["logprobs"] == pytest.approx(sample["expected"], abs=2e-3)
        assert set(sample["versions"]) == {int(when == "moved")}


def test_equal_seeds_repeat_samples_of_a_request_differ_and_an_update_is_sampled_from(told):
    assert [sample["token_ids"] for sample in told["first"]] == [sample["token_ids"] for sample in told["again"]]
    assert told["first"][2]["token_ids"] != told["first"][3]["token_ids"]
    assert told["first"][0]["token_ids"] != told["moved"][0]["token_ids"]


def test_what_is_asked_for_beside_the_tokens_comes_with_them(told):
    sample = told["first"][2]
    assert len(sample["prompt_logprobs"]) == sample["num_prompt"] - 1
    assert [len(place) for place in sample["top_logprobs"]] == [2] * len(sample["token_ids"])
