"""An update of the starter model, tokens a second and peak memory: Burnish against TRL's trainers.

    python -m bench.learner [--quick] [--tokens 8192] [--threads 2] [--rounds 1] [--workloads sft grpo]
                            [--trains full lora] [--random-order] [--trl-packing] [--checkpointing]

SmolLM2-135M, AdamW, ragged rows (`bench.contest.workloads`): `sft` against SFTTrainer, `grpo` against the
update phase of GRPOTrainer. Each turn is a process that makes one update after a small one; the peak is that of the
whole process, with weights, gradients and moments. Tokens are those of the rows: padding does not count, and a prompt
counts as often as rows have it. TRL is found through BURNISH_TRL_PYTHON.

The share of the limit counts 6 operations a weight and computed token (4 where only adapters train), attention left
out, against the rate of large products in the same run. `--quick` is 2048 tokens and full training alone, which says
nothing about the memory of 8192.
"""

import argparse
from typing import Any

from bench.contest.race import Found, Side, add_trl_weights, announce, compare, model_folder, options_of, peer, race

PASSES = {"full": 6, "lora": 4}


def main(options: argparse.Namespace) -> None:
    """Race each workload, and print its lines."""
    num_tokens = 2048 if options.quick else options.tokens
    shape = {"threads": options.threads, "tokens": num_tokens, "packing": options.trl_packing}
    shape |= {"checkpointing": options.checkpointing, "random": options.random_order}
    shape |= {"model": model_folder(options.model), "dtype": options.dtype, "weights": options.trl_weights}
    announce("update", shape, options.rounds)
    sides = [Side(name="Burnish", module="train_burnish")]
    if python := peer("trl", "training against TRL's SFTTrainer and GRPOTrainer"):
        sides.append(Side(name="TRL", module="train_trl", python=python))
    for workload in options.workloads:
        for trains in ["full"] if options.quick else options.trains:
            given = shape | {"workload": workload, "trains": trains}
            _print(f"{workload} {trains}", trains, race(sides, given, num_rounds=options.rounds), given)


def _print(name: str, trains: str, found: dict[str, Found], shape: dict[str, Any]) -> None:
    ours = found.pop("Burnish")
    num_tokens = ours.number("num_tokens")
    for peer_name, theirs in found.items():
        compare(f"update, {name}", num_tokens, "tokens/s", ours, theirs, "update", peer_name)
        mine, other = ours.number("peak_mb"), theirs.number("peak_mb")
        print(
            f"peak memory, {name:21} Burnish {mine:8.0f}  {peer_name} {other:8.0f} MB        ratio {mine / other:5.2f}"
        )
    gflops = race([Side(name="limits", module="limits")], shape, num_rounds=1)["limits"].number("gflops")
    done = PASSES[trains] * ours.number("num_weights") * ours.number("num_computed") / ours.wall_s("update") / 1e9
    print(
        f"update, {name}: {num_tokens / ours.wall_s('update'):.1f} tokens/s of rows, of which "
        f"{ours.number('num_computed') / num_tokens:.0%} are computed; {done:.0f} of {gflops:.0f} GFLOP/s, "
        f"{done / gflops:.0%} of the limit",
        flush=True,
    )


if __name__ == "__main__":
    parser = options_of("An update against TRL's trainers.", num_rounds=1)
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--workloads", nargs="+", choices=["sft", "grpo"], default=["sft", "grpo"])
    parser.add_argument("--trains", nargs="+", choices=["full", "lora"], default=["full", "lora"])
    parser.add_argument("--random-order", action="store_true", help="sft rows as they came, not by length")
    parser.add_argument("--trl-packing", action="store_true", help="pack the rows of SFTTrainer")
    parser.add_argument("--checkpointing", action="store_true", help="both sides run layers again to save memory")
    add_trl_weights(parser)
    main(parser.parse_args())
