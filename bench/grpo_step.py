"""One whole GRPO step, from prompts to moved weights: Burnish against TRL's GRPOTrainer.

    python -m bench.grpo_step [--quick] [--threads 2] [--rounds 1]

SmolLM2-135M, full training, AdamW, no KL term, one update a step: 8 prompts of 128 tokens, 8 replies each of
exactly 128, the same reward of a reply's text. TRL samples all 64 at once by `transformers.generate` and updates in
micro-batches of 8. Each turn is a process that makes one small step before. TRL is found through BURNISH_TRL_PYTHON.
`--quick` is 2 prompts.
"""

import argparse

from bench.contest.race import Side, add_trl_weights, announce, compare, model_folder, options_of, peer, race
from bench.contest.workloads import GROUP, PROMPT


def main(options: argparse.Namespace) -> None:
    """Race, and print two lines."""
    num_prompts, num_new = 2 if options.quick else 8, 128
    shape = {"threads": options.threads, "prompts": num_prompts, "prompt": PROMPT, "group": GROUP, "new": num_new}
    shape |= {"model": model_folder(options.model), "dtype": options.dtype, "weights": options.trl_weights}
    announce("whole GRPO step", shape, options.rounds)
    sides = [Side(name="Burnish", module="step_burnish")]
    if python := peer("trl", "a whole GRPO step against TRL's GRPOTrainer"):
        sides.append(Side(name="TRL", module="step_trl", python=python))
    found = race(sides, shape, num_rounds=options.rounds)
    ours = found.pop("Burnish")
    for name, theirs in found.items():
        compare("GRPO step", num_prompts * GROUP * num_new, "tokens/s", ours, theirs, "step", name)
        print(f"GRPO step: Burnish {ours.wall_s('step'):.1f} s, {name} {theirs.wall_s('step'):.1f} s")
    print(f"  of Burnish's step {ours.wall_s('sample'):.1f} s sample, {ours.wall_s('update'):.1f} s update")


if __name__ == "__main__":
    parser = options_of("A whole GRPO step against TRL's GRPOTrainer.", num_rounds=1)
    add_trl_weights(parser)
    main(parser.parse_args())
