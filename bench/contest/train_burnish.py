"""Side of `bench.learner`: one update by Burnish's learner, after one of two rows."""

from collections.abc import Sequence
from typing import Any

import torch
from transformers import PreTrainedModel

from bench.contest.stopwatch import Stopwatch, shape_of_work
from bench.contest.workloads import GROUP, Sample, Workload, num_tokens_of, rows_of
from burnish import __version__
from burnish.learner.packing import Row, pack
from burnish.learner.policy import Batch, Policy
from burnish.models.forward import checkpoint_activations
from burnish.models.load import load
from burnish.models.lora import add_lora, trainable
from burnish.objectives import grpo, sft

RANK, ALPHA = 16, 32
PACK_TOKENS = 2048  # what recipes pack by default


def open_policy(model: PreTrainedModel, trains: str) -> Policy:
    """Adapters train, or everything."""
    if trains == "lora":
        add_lora(model, rank=RANK, alpha=ALPHA, targets="all-linear", seed=0)
    else:
        model.requires_grad_(True)
    return Policy(model, trainable(model), max_pack_tokens=PACK_TOKENS)


def rows_for(workload: Workload, samples: Sequence[Sample]) -> list[Row]:
    """Rows as the learner takes them; `grpo` has advantages, of groups of neighbours."""
    if workload == "sft":
        return [_row(sample, 0.0) for sample in samples]
    rows: list[Row] = []
    for start in range(0, len(samples), GROUP):
        group = samples[start : start + GROUP]
        advantages_G = grpo.advantages(torch.tensor([sample.reward for sample in group]), grpo.Config())
        rows += [_row(sample, advantage) for sample, advantage in zip(group, advantages_G.tolist(), strict=True)]
    return rows


def update(policy: Policy, workload: Workload, rows: Sequence[Row]) -> None:
    """Forward, backward, clip, AdamW."""
    if workload == "sft":
        batch = Batch(rows=rows, aggregate=sft.AGGREGATION, max_length=1)
        policy.forward_backward(batch, lambda s: sft.loss(s, sft.Config()))
    else:
        batch = Batch(rows=rows, aggregate=grpo.AGGREGATION, max_length=1)
        policy.forward_backward(batch, lambda s: grpo.loss(s, grpo.Config()))
    policy.optim_step(1e-5)


def main(shape: dict[str, Any]) -> None:
    """Time one update."""
    torch.set_num_threads(shape["threads"])
    samples = rows_of(shape["workload"], shape["tokens"], in_random_order=shape["random"])
    model = load(shape["model"], dtype=shape["dtype"]).model
    if shape["checkpointing"]:
        checkpoint_activations(model)
    policy = open_policy(model, shape["trains"])
    rows = rows_for(shape["workload"], samples)
    update(policy, shape["workload"], rows[:2])
    watch = Stopwatch()
    watch.time("update", lambda: update(policy, shape["workload"], rows))
    num_computed = sum(len(piece.token_ids_T) for piece in pack(rows, PACK_TOKENS))
    versions = {"burnish": __version__, "torch": torch.__version__}
    num_weights = sum(parameter.numel() for parameter in policy.model.parameters())
    watch.report(versions, num_tokens=num_tokens_of(samples), num_computed=num_computed, num_weights=num_weights)


def _row(sample: Sample, advantage: float) -> Row:
    num_given, num_new = len(sample.prompt_ids), len(sample.reply_ids)
    return Row(
        token_ids=(*sample.prompt_ids, *sample.reply_ids),
        was_sampled=(False,) * num_given + (True,) * num_new,
        advantage=advantage,
    )


if __name__ == "__main__":
    main(shape_of_work())
