"""Side of `bench.grpo_step`: a step of TRL's GRPOTrainer over `transformers.generate`, after a small one."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import transformers
import trl
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from bench.contest.stopwatch import Stopwatch, shape_of_work
from bench.contest.trl_settings import MICRO_BATCH, AroundSteps, open_model, settings_of
from bench.contest.words import texts_of
from bench.contest.workloads import GROUP, PROMPT, reward_of


def rewards(completions: Sequence[str], **_: object) -> list[float]:
    """As on the other side."""
    return [reward_of(text) for text in completions]


def trainer_of(
    model: Any, tokenizer: Any, prompts: Sequence[str], num_new: int, num_samples: int, callback: AroundSteps,
    plain: Mapping[str, Any],
) -> Any:  # fmt: skip
    """One step over all prompts; no reply ends before it has all its tokens."""
    num_rows = len(prompts) * num_samples
    config = GRPOConfig(
        **plain, learning_rate=1e-6, per_device_train_batch_size=min(MICRO_BATCH, num_rows),
        gradient_accumulation_steps=-(-num_rows // MICRO_BATCH), num_generations=num_samples, beta=0.0,
        loss_type="grpo", max_completion_length=num_new, generation_kwargs={"min_new_tokens": num_new},
    )  # fmt: skip
    return GRPOTrainer(
        model=model, args=config, train_dataset=Dataset.from_list([{"prompt": prompt} for prompt in prompts]),
        processing_class=tokenizer, reward_funcs=[rewards], callbacks=[callback],
    )  # fmt: skip


def main(shape: dict[str, Any]) -> None:
    """Time one step."""
    torch.set_num_threads(shape["threads"])
    model, tokenizer = open_model(shape, "full")
    prompts = texts_of(tokenizer, shape["prompts"], PROMPT)
    watch, plain = Stopwatch(), settings_of(shape)
    around = AroundSteps(watch.start, lambda: watch.stop("step"))
    trainer_of(model, tokenizer, prompts[:1], 4, 2, around, plain).train()
    trainer = trainer_of(model, tokenizer, prompts, shape["new"], GROUP, around, plain)
    trainer.train()
    assert trainer.state.num_input_tokens_seen == len(prompts) * GROUP * (PROMPT + shape["new"])
    versions = {"trl": trl.__version__, "transformers": transformers.__version__, "torch": torch.__version__}
    watch.report(versions)


if __name__ == "__main__":
    main(shape_of_work())
