"""Side of `bench.sampling`: `transformers.generate` with SDPA, which is what a user gets, and log-probabilities.

The scores of all steps are kept by `generate` and turned into log-probabilities of the sampled tokens afterwards.
"""

from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, PreTrainedModel

from bench.contest.stopwatch import Stopwatch, shape_of_work
from bench.contest.workloads import PROMPT, prompts_of


def load_plain(folder: str, dtype: str) -> PreTrainedModel:
    """The model as plain transformers loads it, without a token that ends a reply."""
    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    return model


@torch.inference_mode()
def run(model: PreTrainedModel, prompts: list[tuple[int, ...]], num_samples: int, num_new: int) -> None:
    """Sample from softmax(logits), and find the log-probabilities."""
    ids_P_T = torch.tensor(prompts)
    done = model.generate(
        ids_P_T, attention_mask=torch.ones_like(ids_P_T), do_sample=True, temperature=1.0, top_k=0, top_p=1.0,
        num_return_sequences=num_samples, max_new_tokens=num_new, return_dict_in_generate=True, output_logits=True,
    )  # fmt: skip
    new_B_T = done.sequences[:, ids_P_T.shape[1] :]
    logprobs_B_T = torch.stack(
        [
            logits_B_V.log_softmax(-1).gather(1, new_B[:, None])[:, 0]
            for logits_B_V, new_B in zip(done.logits, new_B_T.T, strict=True)
        ],
        dim=1,
    )
    assert logprobs_B_T.shape == (len(prompts) * num_samples, num_new)


def main(shape: dict[str, Any]) -> None:
    """Time each row of the contest."""
    torch.set_num_threads(shape["threads"])
    model = load_plain(shape["model"], shape["dtype"])
    watch = Stopwatch()
    run(model, prompts_of(2, 16), 1, 4)
    for name, num_prompts, num_samples, num_new in shape["cases"]:
        prompts = prompts_of(num_prompts, PROMPT)
        watch.time(name, lambda p=prompts, s=num_samples, n=num_new: run(model, p, s, n))
    watch.report({"transformers": transformers.__version__, "torch": torch.__version__})


if __name__ == "__main__":
    main(shape_of_work())
