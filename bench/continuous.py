"""Many requests of unequal length: Burnish's continuous batching against `transformers.generate` in batches of 32.

    python -m bench.continuous [--quick] [--threads 2] [--rounds 1] [--requests 256] [--longest 512]

SmolLM2-135M, prompts of 16 to 128 tokens, replies of 8 to 512 evenly spread, in random order. Tokens are
those that were asked for: what a batch computes for rows that have ended does not count. `--quick` is 64 requests of 8
to 128 tokens.
"""

import argparse

from bench.contest.race import Side, announce, compare, model_folder, options_of, race
from bench.contest.workloads import reply_lengths

SHORTEST = 8


def main(options: argparse.Namespace) -> None:
    """Race, and print a line."""
    num_requests, longest = (64, 128) if options.quick else (options.requests, options.longest)
    shape = {"threads": options.threads, "requests": num_requests, "shortest": SHORTEST, "longest": longest}
    shape |= {"model": model_folder(options.model), "dtype": options.dtype}
    announce("requests of unequal length", shape, options.rounds)
    sides = [
        Side(name="Burnish", module="continuous_burnish"),
        Side(name="transformers", module="continuous_transformers"),
    ]
    found = race(sides, shape, num_rounds=options.rounds)
    num_tokens = sum(reply_lengths(num_requests, SHORTEST, longest))
    compare("continuous", num_tokens, "tokens/s", found["Burnish"], found["transformers"], "all", "transformers")


if __name__ == "__main__":
    parser = options_of("Continuous batching against batches of transformers.generate.", num_rounds=1)
    parser.add_argument("--requests", type=int, default=256)
    parser.add_argument("--longest", type=int, default=512)
    main(parser.parse_args())
