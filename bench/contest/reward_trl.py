"""Side of `bench.time_to_reward`: TRL's GRPOTrainer on Burnish's tasks, judged by Burnish's verdicts."""

import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from bench.contest.reward_task import GROUP, LEARNING_RATE, NEW, PROMPTS
from bench.contest.stopwatch import shape_of_work
from bench.contest.trl_settings import AroundSteps, open_model, settings_of

MICRO_BATCH = 32


class Judge:
    """A process of Burnish's that draws the tasks and judges replies to them."""

    def __init__(self, python: str, seed: int, num_draws: int) -> None:
        asked = json.dumps({"seed": seed, "draws": num_draws})
        self._process = subprocess.Popen(
            [python, "-m", "bench.contest.reward_judge", asked],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.messages: list[list[dict[str, str]]] = self._read()

    def scores(self, draws: Sequence[int], replies: Sequence[str]) -> list[float | None]:
        """One a reply; None where there is no verdict."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"draws": list(draws), "replies": list(replies)}) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


def main(shape: dict[str, Any]) -> None:
    """Train, and add a line to the file of points after each step."""
    torch.set_num_threads(shape["threads"])
    judge = Judge(shape["judge"], shape["seed"], shape["steps"] * PROMPTS)
    model, tokenizer = open_model(shape, "full")
    means: list[float] = []
    began: list[float] = []

    def rewards(
        completions: Sequence[Sequence[dict[str, str]]], draw: Sequence[int], **_: object
    ) -> list[float | None]:
        scores = judge.scores(draw, [completion[0]["content"] for completion in completions])
        means.append(fmean(score for score in scores if score is not None))
        return scores

    def end() -> None:
        with Path(shape["points"]).open("a") as file:
            file.write(json.dumps({"seconds": time.perf_counter() - began[0], "reward": means[-1]}) + "\n")

    config = GRPOConfig(
        **settings_of(shape) | {"max_steps": shape["steps"], "seed": shape["seed"]}, learning_rate=LEARNING_RATE,
        per_device_train_batch_size=MICRO_BATCH, gradient_accumulation_steps=PROMPTS * GROUP // MICRO_BATCH,
        num_generations=GROUP, beta=0.0, loss_type="grpo", max_completion_length=NEW, shuffle_dataset=False,
        temperature=1.0,
    )  # fmt: skip
    drawn = [{"prompt": messages, "draw": number} for number, messages in enumerate(judge.messages)]
    GRPOTrainer(
        model=model, args=config, train_dataset=Dataset.from_list(drawn), processing_class=tokenizer,
        reward_funcs=[rewards], callbacks=[AroundSteps(lambda: began.append(time.perf_counter()), end)],
    ).train()  # fmt: skip


if __name__ == "__main__":
    main(shape_of_work())
