"""Side of `bench.sampling`: vLLM's build for processors, compiled, with prefix caching.

A first run compiles and warms up; what is timed has other prompts, so that no prefix of them is cached.
"""

from typing import Any

import torch
import vllm
from vllm import LLM, SamplingParams, TokensPrompt

from bench.contest.stopwatch import Stopwatch, shape_of_work
from bench.contest.workloads import PROMPT, prompts_of


def run(engine: LLM, prompts: list[tuple[int, ...]], num_samples: int, num_new: int) -> None:
    """Sample from softmax(logits), each token with its log-probability."""
    params = SamplingParams(n=num_samples, temperature=1.0, max_tokens=num_new, ignore_eos=True, logprobs=0, seed=None)
    given = [TokensPrompt(prompt_token_ids=list(prompt)) for prompt in prompts]
    done = engine.generate(given, params, use_tqdm=False)
    assert all(len(out.logprobs or []) == num_new for request in done for out in request.outputs)


def main(shape: dict[str, Any]) -> None:
    """Time each row of the contest."""
    engine = LLM(
        model=shape["model"], dtype=shape["dtype"], max_model_len=1024, max_num_seqs=64, enable_prefix_caching=True,
        logprobs_mode="processed_logprobs", enforce_eager=shape["eager"],
    )  # fmt: skip
    watch = Stopwatch()
    run(engine, prompts_of(8, PROMPT, seed=1), 8, 4)
    for name, num_prompts, num_samples, num_new in shape["cases"]:
        engine.reset_prefix_cache()
        prompts = prompts_of(num_prompts, PROMPT)
        watch.time(name, lambda p=prompts, s=num_samples, n=num_new: run(engine, p, s, n))
    watch.cpu_s.clear()  # the engine works in a process of its own, whose time this clock does not see
    watch.report({"vllm": vllm.__version__, "torch": torch.__version__})


if __name__ == "__main__":
    main(shape_of_work())
