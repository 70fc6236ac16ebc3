"""Tokens a second of sampling with log-probabilities: Burnish, `transformers.generate`, vLLM's build for processors.

    python -m bench.sampling [--quick] [--threads 2] [--rounds 3]

SmolLM2-135M, random prompts of 128 tokens, replies of exactly 128, drawn from softmax(logits). Rows:

8 prompts x 8    end to end; transformers gets `num_return_sequences`, vLLM `n` and its prefix cache
batch 64, 1      decoding alone: the time for all new tokens less the time for one, prompts that share nothing

Each side runs in processes of its own that take turns. vLLM is found through BURNISH_VLLM_PYTHON; its compilation is
not timed (`--vllm-eager` leaves it out). The last lines say which share of the processor's limit our decoding reaches:
a step reads the weights once and each row's keys and values, and multiplies them; the larger of both is the limit.
`--quick` is one round of replies of 32 tokens.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from bench.contest.race import Found, Side, announce, compare, model_folder, options_of, peer, race
from bench.contest.workloads import PROMPT

BYTES = 4
SHARED = "8 prompts x 8"
VLLM_ENVIRONMENT = {
    "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_CPU_KVCACHE_SPACE": "4", "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS": "3600",
}  # fmt: skip
DECODED = {"batch 64": 64, "batch 1": 1}


def main(options: argparse.Namespace) -> None:
    """Race, and print a line a row."""
    num_new, num_rounds = (32, 1) if options.quick else (128, options.rounds)
    shape = {"threads": options.threads, "prompt": PROMPT, "new": num_new, "eager": options.vllm_eager}
    shape |= {"model": model_folder(options.model), "dtype": options.dtype}
    announce("sampling", shape, num_rounds)
    cases = [(SHARED, 8, 8, num_new)]
    cases += [(f"{name}: {new}", rows, 1, new) for name, rows in DECODED.items() for new in (1, num_new)]
    sides = [Side(name="Burnish", module="sample_burnish"), Side(name="transformers", module="sample_transformers")]
    if python := peer("vllm", f"sampling, {SHARED} against vLLM"):
        sides.append(Side(name="vLLM", module="sample_vllm", python=python, environment=VLLM_ENVIRONMENT))
    found = race(sides, shape | {"cases": cases}, num_rounds=num_rounds)
    ours = found.pop("Burnish")
    for name, theirs in found.items():
        compare(SHARED, 64 * num_new, "tokens/s", ours, theirs, SHARED, name)
    for name in found:
        for case, rows in DECODED.items():
            mine, other = _decode_s(ours, case, num_new), _decode_s(found[name], case, num_new)
            amount = rows * (num_new - 1)
            print(
                f"decode, {case:26} Burnish {amount / mine:8.1f}  {name} {amount / other:8.1f} tokens/s  "
                f"ratio {other / mine:5.2f}"
            )
    _print_shares(ours, shape, num_new)


def _decode_s(found: Found, case: str, num_new: int) -> float:
    return found.wall_s(f"{case}: {num_new}") - found.wall_s(f"{case}: 1")


def _print_shares(ours: Found, shape: dict[str, Any], num_new: int) -> None:
    """Which share of the limit decoding reaches, and which limit it is."""
    limits = race([Side(name="limits", module="limits")], shape, num_rounds=1)["limits"]
    gflops, gbytes = limits.number("gflops"), limits.number("gbytes")
    print(f"limits: {gflops:.0f} GFLOP/s in float32, {gbytes:.1f} GB/s read")
    config = json.loads(Path(shape["model"], "config.json").read_text())
    for case, rows in DECODED.items():
        read_s, multiply_s = _floor_s(config, rows, num_new, gflops, gbytes)
        step_s = _decode_s(ours, case, num_new) / (num_new - 1)
        which = "memory" if read_s > multiply_s else "arithmetic"
        print(
            f"decode, {case}: {1e3 * step_s:.1f} ms a step, {max(read_s, multiply_s) / step_s:.0%} of {which}'s limit"
        )


def _floor_s(config: dict[str, Any], rows: int, num_new: int, gflops: float, gbytes: float) -> tuple[float, float]:
    """Seconds of a step if only memory, and if only arithmetic limited it."""
    width, layers, head = config["hidden_size"], config["num_hidden_layers"], config["head_dim"]
    keys = config["num_key_value_heads"] * head
    queries = config["num_attention_heads"] * head
    layer = 2 * width * queries + 2 * width * keys + 3 * width * config["intermediate_size"]
    weights = layers * layer + config["vocab_size"] * width
    context = PROMPT + num_new / 2
    read = BYTES * (weights + rows * context * 2 * layers * keys)
    multiplied = 2 * rows * (weights + 2 * layers * queries * context)
    return read / gbytes / 1e9, multiplied / gflops / 1e9


if __name__ == "__main__":
    parser = options_of("Sampling against transformers.generate and vLLM.", num_rounds=3)
    parser.add_argument("--vllm-eager", action="store_true", help="do not let vLLM compile")
    main(parser.parse_args())
