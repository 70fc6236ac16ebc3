"""Side of `bench.sampling`: Burnish's engine over the starter model."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from bench.contest.stopwatch import Stopwatch, shape_of_work
from bench.contest.workloads import PROMPT, prompts_of
from burnish import __version__
from burnish.engine.local import Config, LocalEngine
from burnish.engine.params import SamplingParams
from burnish.engine.types import Request
from burnish.models.load import Loaded, load
from burnish.stages.session import open_chat


def open_endless(loaded: Loaded, version: Callable[[], int] = lambda: 0) -> LocalEngine:
    """An engine of 64 rows that no token stops, so that all replies have the length that was asked for."""
    chat = open_chat(loaded)
    chat.stop_ids = frozenset()
    return LocalEngine(loaded.model, chat, max_rows=64, version=version, config=Config())


def requests_of(prompts: Sequence[tuple[int, ...]], lengths: Sequence[int], num_samples: int = 1) -> list[Request]:
    """One request a prompt, with its length."""
    return [
        Request(
            prompt_ids=prompt, seed=number, num_samples=num_samples, params=SamplingParams(max_new_tokens=length)
        )
        for number, (prompt, length) in enumerate(zip(prompts, lengths, strict=True))
    ]  # fmt: skip


def run(engine: LocalEngine, requests: Sequence[Request]) -> None:
    """Sample all; each reply must have all its tokens, with log-probabilities."""
    done = list(engine.sample(requests))
    assert len(done) == sum(request.num_samples for request in requests)
    for finished in done:
        assert len(finished.completion.logprobs) == requests[finished.request].params.max_new_tokens


def main(shape: dict[str, Any]) -> None:
    """Time each row of the contest."""
    torch.set_num_threads(shape["threads"])
    engine = open_endless(load(shape["model"], dtype=shape["dtype"]))
    watch = Stopwatch()
    run(engine, requests_of(prompts_of(2, 16), [4, 4]))
    for name, num_prompts, num_samples, num_new in shape["cases"]:
        requests = requests_of(prompts_of(num_prompts, PROMPT), [num_new] * num_prompts, num_samples)
        watch.time(name, lambda requests=requests: run(engine, requests))
    watch.report({"burnish": __version__, "torch": torch.__version__})


if __name__ == "__main__":
    main(shape_of_work())
