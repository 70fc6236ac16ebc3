"""How fast the native step decodes, beside transformers.generate and the processor's own limits.

    python bench/native_steps.py --model starter --threads 1

All in one process, one after the other, random prompts of 128 tokens and 128 new ones. Times are of the process's
CPU clock divided by the threads, so that other load on the machine distorts them less; on a quiet machine that is
the wall clock. Limits: multiply-adds that fit in registers, and reading 256 MiB.
"""

import argparse
import resource
from collections.abc import Callable, Sequence

import torch
from transformers import PreTrainedModel

from burnish.engine.native.library import open_library
from burnish.engine.native.steps import NativeSteps
from burnish.engine.steps import Work
from burnish.models.attention import IMPLEMENTATION
from burnish.models.load import load

NUM_GIVEN = NUM_NEW = 128


def main() -> None:
    """Measure all and print a line each."""
    parser = argparse.ArgumentParser(description="How fast the native step decodes.")
    parser.add_argument("--model", default="starter", help="as `burnish` takes it")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--weights", default="auto", choices=["auto", "int8"])
    parser.add_argument("--cache", default="auto", choices=["auto", "int8"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rows", type=int, nargs="*", default=[1, 8, 64])
    parser.add_argument("--new", type=int, default=NUM_NEW, help="tokens to decode")
    parser.add_argument("--no-transformers", action="store_true", help="skip the comparison, which takes minutes")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model = load(options.model, dtype=options.dtype).model
    steps = NativeSteps(model, memory_mb=4096, weights=options.weights, cache=options.cache)
    limits = Limits(options.threads)
    print(f"level {open_library().level}, {options.dtype}, weights {options.weights}, cache {options.cache}")
    print(f"limits of {options.threads} thread(s): {limits.gflops:.0f} GFLOP/s, read {limits.gbytes:.1f} GB/s")
    print(f"refresh {seconds(steps.refresh):.3f} s")
    for num_rows in options.rows:
        report(f"B={num_rows}", model, steps, limits, num_rows, 1, options)
    report("8 prompts x 8", model, steps, limits, 8, 8, options)


class Limits:
    """What this processor does at most, measured by torch's own best cases."""

    def __init__(self, num_threads: int) -> None:
        a_N_N = torch.randn(1536, 1536)
        self.gflops = 2 * 1536**3 / best(lambda: a_N_N @ a_N_N) / 1e9
        x_N = torch.ones(64 << 20)
        self.gbytes = x_N.numel() * 4 / best(lambda: x_N.sum()) / 1e9
        self.num_threads = num_threads


def report(
    name: str, model: PreTrainedModel, steps: NativeSteps, limits: Limits, num_prompts: int, num_samples: int, options
) -> None:
    """One line: tokens a second of both, and the share of the limit."""
    prompts = torch.randint(0, 10_000, (num_prompts, NUM_GIVEN), generator=torch.Generator().manual_seed(0)).tolist()
    prefill_s, decode_s = native(steps, prompts, num_samples, options.new)
    num_rows = num_prompts * num_samples
    decoded = num_rows * (options.new - 1) / decode_s
    whole = num_rows * options.new / (prefill_s + decode_s)
    floor_s = _floor_s(model, steps, limits, num_rows, options.new)
    line = (
        f"{name:14} prefill {num_prompts * NUM_GIVEN / prefill_s:6.0f}  decode {decoded:6.1f}  whole {whole:6.1f} tok/s"
        f"  {floor_s * (options.new - 1) / decode_s:4.0%} of the limit"
    )
    if not options.no_transformers:
        theirs = num_rows * options.new / generate(model, prompts, num_samples, options.new)
        line += f"  transformers whole {theirs:6.1f}  ratio {whole / theirs:.2f}"
    print(line, flush=True)


def native(steps: NativeSteps, prompts: Sequence[list[int]], num_samples: int, num_new: int) -> tuple[float, float]:
    """Seconds for the prompts, and for all tokens but the first."""
    uniforms_T_B = torch.rand(num_new, len(prompts) * num_samples, generator=torch.Generator().manual_seed(1))
    ones_B = torch.ones(uniforms_T_B.shape[1])
    started = clock()
    trunks = [steps.open() for _ in prompts]
    hidden_B_D = steps.feed([Work(t, p) for t, p in zip(trunks, prompts, strict=True)])
    hidden_B_D = hidden_B_D.repeat_interleave(num_samples, dim=0)
    branches = [steps.open(trunk) for trunk in trunks for _ in range(num_samples)]
    prefilled = clock()
    for uniforms_B in uniforms_T_B[:-1]:
        token_ids = steps.draw(hidden_B_D, ones_B, uniforms_B).token_ids_B.tolist()
        hidden_B_D = steps.feed([Work(b, [i]) for b, i in zip(branches, token_ids, strict=True)])
    steps.draw(hidden_B_D, ones_B, uniforms_T_B[-1])
    ended = clock()
    for branch in trunks + branches:
        steps.drop(branch)
    return prefilled - started, ended - prefilled


def generate(model: PreTrainedModel, prompts: Sequence[list[int]], num_samples: int, num_new: int) -> float:
    """Seconds that transformers takes for the same."""
    model.set_attn_implementation("sdpa")
    ids_P_T = torch.tensor(prompts)
    used = seconds(
        lambda: model.generate(
            ids_P_T, attention_mask=torch.ones_like(ids_P_T), do_sample=True, top_k=0, num_return_sequences=num_samples,
            max_new_tokens=num_new, min_new_tokens=num_new,
        )
    )  # fmt: skip
    model.set_attn_implementation(IMPLEMENTATION)
    return used


def _floor_s(model: PreTrainedModel, steps: NativeSteps, limits: Limits, num_rows: int, num_new: int) -> float:
    """A step's time if only memory or only arithmetic limited it; keys and values of each row read for itself."""
    config = model.config
    context = NUM_GIVEN + num_new / 2
    token_bytes = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * model.dtype.itemsize
    read = steps.packed_bytes + num_rows * context * token_bytes
    layers = sum(p.numel() for n, p in model.named_parameters() if "proj" in n)
    head = config.vocab_size * config.hidden_size
    attention = 2 * config.num_hidden_layers * config.num_attention_heads * config.head_dim * context
    arithmetic = 2 * num_rows * (layers + head + attention)
    return max(read / limits.gbytes / 1e9, arithmetic / limits.gflops / 1e9)


def clock() -> float:
    """CPU seconds of this process, over its threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return (used.ru_utime + used.ru_stime) / torch.get_num_threads()


def seconds(run: Callable[[], object]) -> float:
    """What one call takes."""
    started = clock()
    run()
    return clock() - started


def best(run: Callable[[], object]) -> float:
    """Seconds of the fastest of some runs."""
    return min(seconds(run) for _ in range(12))


if __name__ == "__main__":
    with torch.inference_mode():
        main()
