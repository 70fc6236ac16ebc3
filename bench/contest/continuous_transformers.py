"""Side of `bench.continuous`: `transformers.generate` in batches of 32, left-padded, each to its longest reply.

Batches are filled in the order in which requests come, since nobody knows their lengths before. No log-probabilities
are asked for here: keeping the scores of 512 steps costs gigabytes.
"""

from typing import Any

import torch
import transformers
from transformers import PreTrainedModel

from bench.contest.sample_transformers import load_plain
from bench.contest.stopwatch import Stopwatch, shape_of_work
from bench.contest.workloads import ragged_prompts, reply_lengths

BATCH = 32


@torch.inference_mode()
def run(model: PreTrainedModel, prompts: list[tuple[int, ...]], num_new: int) -> None:
    """Sample a batch from softmax(logits)."""
    longest = max(len(prompt) for prompt in prompts)
    ids_B_T = torch.tensor([(0,) * (longest - len(prompt)) + prompt for prompt in prompts])
    is_token_B_T = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    done_B_T = model.generate(
        ids_B_T, attention_mask=is_token_B_T, do_sample=True, temperature=1.0, top_k=0, top_p=1.0,
        max_new_tokens=num_new,
    )  # fmt: skip
    assert done_B_T.shape == (len(prompts), longest + num_new)


def main(shape: dict[str, Any]) -> None:
    """Time all batches."""
    torch.set_num_threads(shape["threads"])
    model = load_plain(shape["model"], shape["dtype"])
    lengths = reply_lengths(shape["requests"], shape["shortest"], shape["longest"])
    prompts = ragged_prompts(shape["requests"])
    run(model, prompts[:2], 4)

    def run_all() -> None:
        for start in range(0, len(prompts), BATCH):
            run(model, prompts[start : start + BATCH], max(lengths[start : start + BATCH]))

    watch = Stopwatch()
    watch.time("all", run_all)
    watch.report({"transformers": transformers.__version__, "torch": torch.__version__})


if __name__ == "__main__":
    main(shape_of_work())
