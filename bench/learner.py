"""An update of the starter model by Burnish and by plain transformers: tokens a second and peak memory.

`python bench/learner.py [--tokens 8192] [--threads 1] [--workloads sft grpo] [--trains full lora]`. Each run is a child
process of its own, which makes one update (forward, backward, AdamW) of the same ragged rows after a small one, and
reports tokens a second of processor time, so that other work on the machine matters little; its peak is `ru_maxrss`,
the model and its moments included. Tokens are those of the rows: padding does not count, and a prompt counts as often
as rows have it.

sft    rows of 30 to 600 tokens, a third of it prompt
grpo   groups of 8 that share a prompt of 128 tokens, replies of 16 to 256

plain  right-padded micro-batches of 8, SDPA, logits of all tokens, torch's cross entropy
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional
from transformers import AutoModelForCausalLM, PreTrainedModel

from burnish.learner.packing import Row
from burnish.learner.policy import Batch, Policy
from burnish.models.gguf import default_cache, starter_folder
from burnish.models.load import load
from burnish.models.lora import add_lora, trainable
from burnish.objectives import grpo, sft

MICRO_BATCH = 8
VOCABULARY = 49_152
RANK = 16


def rows_of(workload: str, num_tokens: int) -> list[Row]:
    """Ragged rows that together have about so many tokens."""
    draw = random.Random(0)
    rows: list[Row] = []
    while sum(len(row.token_ids) for row in rows) < num_tokens:
        if workload == "sft":
            length = min(600, max(30, round(draw.lognormvariate(5.2, 0.7))))
            rows.append(_row(draw, _ids(draw, length // 3), length - length // 3))
        else:
            prompt = _ids(draw, 128)
            rows += [_row(draw, prompt, draw.randint(16, 256)) for _ in range(8)]
    return rows


def _ids(draw: random.Random, length: int) -> tuple[int, ...]:
    return tuple(draw.randrange(1000, VOCABULARY) for _ in range(length))


def _row(draw: random.Random, prompt: tuple[int, ...], num_new: int) -> Row:
    return Row(
        token_ids=(*prompt, *_ids(draw, num_new)),
        was_sampled=(False,) * len(prompt) + (True,) * num_new,
        advantage=draw.uniform(-1, 1),
        rollout_logprobs=(0.0,) * len(prompt) + (-10.0,) * num_new,
    )


def update_burnish(workload: str, rows: Sequence[Row], lora: bool) -> float:
    """One update by our learner, in seconds."""
    model = load("starter", dtype="float32").model
    if lora:
        add_lora(model, rank=RANK, alpha=32, targets="all-linear", seed=0)
    else:
        model.requires_grad_(True)
    policy = Policy(model, trainable(model))

    def once(some: Sequence[Row]) -> None:
        batch = Batch(rows=some, aggregate="token_mean", max_length=256)
        if workload == "sft":
            policy.forward_backward(batch, lambda s: sft.loss(s, sft.Config()))
        else:
            policy.forward_backward(batch, lambda s: grpo.loss(s, grpo.Config()))
        policy.optim_step(1e-5)

    return _seconds(once, rows)


def update_plain(workload: str, rows: Sequence[Row], lora: bool) -> float:
    """One update by padded batches, in seconds; adapters are ours, as PEFT's compute the same."""
    model = AutoModelForCausalLM.from_pretrained(starter_folder(default_cache()), dtype=torch.float32)
    if lora:
        add_lora(model, rank=RANK, alpha=32, targets="all-linear", seed=0)
    optimiser = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-5)

    def once(some: Sequence[Row]) -> None:
        num_trained = sum(row.num_trained for row in some)
        for start in range(0, len(some), MICRO_BATCH):
            losses_N = _padded_losses(model, some[start : start + MICRO_BATCH], workload)
            (losses_N.sum() / num_trained).backward()
        optimiser.step()
        optimiser.zero_grad()

    return _seconds(once, rows)


def _padded_losses(model: PreTrainedModel, rows: Sequence[Row], workload: str) -> Tensor:
    longest = max(len(row.token_ids) for row in rows)
    ids_B_T = torch.zeros(len(rows), longest, dtype=torch.long)
    trains_B_T = torch.zeros(len(rows), longest, dtype=torch.bool)
    is_token_B_T = torch.zeros(len(rows), longest, dtype=torch.long)
    for index, row in enumerate(rows):
        ids_B_T[index, : len(row.token_ids)] = torch.tensor(row.token_ids)
        trains_B_T[index, : len(row.token_ids)] = torch.tensor(row.was_sampled)
        is_token_B_T[index, : len(row.token_ids)] = 1
    logits_B_T_V = model(input_ids=ids_B_T, attention_mask=is_token_B_T, use_cache=False).logits[:, :-1]
    targets_B_T = ids_B_T[:, 1:].masked_fill(~trains_B_T[:, 1:], -100)
    losses_B_T = functional.cross_entropy(logits_B_T_V.flatten(0, 1), targets_B_T.flatten(), reduction="none").view_as(
        targets_B_T
    )
    if workload == "sft":
        return losses_B_T
    ratio_B_T = (losses_B_T.detach() - losses_B_T).exp()
    advantage_B = torch.tensor([row.advantage for row in rows])
    clipped_B_T = ratio_B_T.clamp(0.8, 1.2) * advantage_B[:, None]
    return -torch.minimum(ratio_B_T * advantage_B[:, None], clipped_B_T) * trains_B_T[:, 1:]


def _seconds(once: Callable[[Sequence[Row]], None], rows: Sequence[Row]) -> float:
    """Processor seconds of an update, after one of two rows."""
    once(rows[:2])
    started = time.process_time()
    once(rows)
    return time.process_time() - started


def child(who: str, workload: str, num_tokens: int, lora: bool) -> None:
    """Run one of the contestants and print its figures."""
    rows = rows_of(workload, num_tokens)
    seconds = {"burnish": update_burnish, "plain": update_plain}[who](workload, rows, lora)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"tokens_per_s": sum(len(row.token_ids) for row in rows) / seconds, "peak_mb": peak_mb}))


def main(options: argparse.Namespace) -> None:
    """Run every contestant in a child process, and print ratios to the plain one."""
    print(f"{'workload':<8} {'trains':<6} {'who':<8} {'tokens/s':>9} {'ratio':>6} {'peak MB':>8} {'ratio':>6}")
    for workload in options.workloads:
        for trains in options.trains:
            plain: dict[str, float] | None = None
            for who in ("plain", "burnish"):
                found = _ask(options, who, workload, trains)
                plain = plain or found
                ratios = [found[key] / plain[key] for key in ("tokens_per_s", "peak_mb")]
                print(
                    f"{workload:<8} {trains:<6} {who:<8} {found['tokens_per_s']:>9.1f} {ratios[0]:>6.2f} "
                    f"{found['peak_mb']:>8.0f} {ratios[1]:>6.2f}", flush=True,
                )  # fmt: skip


def _ask(options: argparse.Namespace, who: str, workload: str, trains: str) -> dict[str, float]:
    command = [sys.executable, __file__, "--child", who, "--workloads", workload, "--tokens", str(options.tokens)]
    command += ["--trains", trains, "--threads", str(options.threads)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--workloads", nargs="+", default=["sft", "grpo"])
    parser.add_argument("--trains", nargs="+", default=["full", "lora"])
    parser.add_argument("--child", default="")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    if chosen.child:
        child(chosen.child, chosen.workloads[0], chosen.tokens, chosen.trains[0] == "lora")
    else:
        main(chosen)
