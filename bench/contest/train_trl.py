"""Side of `bench.learner`: one update by TRL's trainers, after one of a few rows.

sft    SFTTrainer on rows in order of their length, so that little of a micro-batch is padding, or in the random order
       that is its default. Its packing needs FlashAttention to be fast; with SDPA it masks a square over the pack
grpo   GRPOTrainer on stored replies (`rollout_func`), timed from where they are handed over: its update phase
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import transformers
import trl
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

from bench.contest.stopwatch import Stopwatch, shape_of_work
from bench.contest.trl_settings import MICRO_BATCH, AroundSteps, open_model, settings_of
from bench.contest.workloads import GROUP, Sample, num_tokens_of, rows_of

LEARNING_RATE = 1e-5
PACK_TOKENS = 2048


def sft_trainer(
    model: Any, tokenizer: Any, samples: Sequence[Sample], callback: AroundSteps, packing: bool, plain: dict[str, Any]
) -> Any:  # fmt: skip
    """One step over all samples."""
    rows = Dataset.from_list(
        [
            {
                "input_ids": [*sample.prompt_ids, *sample.reply_ids],
                "completion_mask": [0] * len(sample.prompt_ids) + [1] * len(sample.reply_ids),
            }
            for sample in samples
        ]
    )
    most_batches = len(samples) if packing else -(-len(samples) // MICRO_BATCH)
    config = SFTConfig(
        **plain, learning_rate=LEARNING_RATE, per_device_train_batch_size=1 if packing else MICRO_BATCH,
        gradient_accumulation_steps=most_batches, train_sampling_strategy="sequential", packing=packing,
        max_length=PACK_TOKENS, completion_only_loss=True,
    )  # fmt: skip
    return SFTTrainer(model=model, args=config, train_dataset=rows, processing_class=tokenizer, callbacks=[callback])


def grpo_trainer(
    model: Any, tokenizer: Any, samples: Sequence[Sample], callback: AroundSteps, handed_over: Callable[[], None],
    plain: dict[str, Any],
) -> Any:  # fmt: skip
    """One step over all samples, which are replies that were stored."""
    group = min(GROUP, len(samples))

    def stored(prompts: Sequence[str], trainer: object) -> dict[str, Any]:
        chosen = [samples[int(number) * group + i % group] for i, number in enumerate(prompts)]
        handed_over()
        return {
            "prompt_ids": [list(sample.prompt_ids) for sample in chosen],
            "completion_ids": [list(sample.reply_ids) for sample in chosen],
            "logprobs": None,
            "stored_reward": [sample.reward for sample in chosen],
        }

    def rewards(stored_reward: Sequence[float], **_: object) -> list[float]:
        return list(stored_reward)

    config = GRPOConfig(
        **plain, learning_rate=LEARNING_RATE, per_device_train_batch_size=min(MICRO_BATCH, len(samples)),
        gradient_accumulation_steps=-(-len(samples) // MICRO_BATCH), num_generations=group, beta=0.0,
        loss_type="grpo", max_completion_length=256, shuffle_dataset=False,
    )  # fmt: skip
    prompts = Dataset.from_list([{"prompt": str(number)} for number in range(len(samples) // group)])
    return GRPOTrainer(
        model=model, args=config, train_dataset=prompts, processing_class=tokenizer, reward_funcs=[rewards],
        rollout_func=stored, callbacks=[callback],
    )  # fmt: skip


def main(shape: dict[str, Any]) -> None:
    """Time one update."""
    torch.set_num_threads(shape["threads"])
    samples = rows_of(shape["workload"], shape["tokens"], in_random_order=shape["random"])
    model, tokenizer = open_model(shape, shape["trains"])
    plain = settings_of(shape) | {"gradient_checkpointing": shape["checkpointing"]}
    watch = Stopwatch()
    around = AroundSteps(watch.start, lambda: watch.stop("update"))
    for some in (samples[:2], samples):
        if shape["workload"] == "sft":
            trainer = sft_trainer(model, tokenizer, some, around, shape["packing"], plain)
        else:
            trainer = grpo_trainer(model, tokenizer, some, around, watch.start, plain)
        trainer.train()
    versions = {"trl": trl.__version__, "transformers": transformers.__version__, "torch": torch.__version__}
    watch.report(versions, num_tokens=num_tokens_of(samples))


if __name__ == "__main__":
    main(shape_of_work())
