"""Side of `bench.continuous`: all requests at once to an engine that decodes 64 rows and admits as rows end."""

from typing import Any

import torch

from bench.contest.sample_burnish import open_endless, requests_of, run
from bench.contest.stopwatch import Stopwatch, shape_of_work
from bench.contest.workloads import ragged_prompts, reply_lengths
from burnish import __version__
from burnish.models.load import load


def main(shape: dict[str, Any]) -> None:
    """Time all requests."""
    torch.set_num_threads(shape["threads"])
    engine = open_endless(load(shape["model"], dtype=shape["dtype"]))
    lengths = reply_lengths(shape["requests"], shape["shortest"], shape["longest"])
    prompts = ragged_prompts(shape["requests"])
    run(engine, requests_of(prompts[:2], [4, 4]))
    watch = Stopwatch()
    watch.time("all", lambda: run(engine, requests_of(prompts, lengths)))
    watch.report({"burnish": __version__, "torch": torch.__version__})


if __name__ == "__main__":
    main(shape_of_work())
