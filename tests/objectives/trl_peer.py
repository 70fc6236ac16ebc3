"""TRL's losses and gradients on given inputs; a program for an interpreter that has TRL, and nothing of ours.

It reads JSON cases from stdin and writes, for each, `[loss, gradient]`. TRL's losses are methods of trainers: they are
called as they are, on stand-ins that hold just what they read, with a model that returns given logits. So what is
compared is TRL's own code, not a trainer's data path.
"""

import json
import sys
from collections import defaultdict
from contextlib import nullcontext
from importlib.metadata import version
from types import SimpleNamespace

import torch
from transformers.loss.loss_utils import ForCausalLMLoss
from trl import DPOTrainer, GRPOTrainer, KTOTrainer, RewardTrainer
from trl.experimental.cpo import CPOTrainer
from trl.experimental.gkd import GKDTrainer
from trl.experimental.orpo import ORPOTrainer


class Accelerator:
    """One process: nothing to gather."""

    device = torch.device("cpu")
    num_processes = 1
    sync_gradients = True

    def gather(self, value):
        return value

    gather_for_metrics = gather

    def reduce(self, value, reduction="sum"):
        return value

    def unwrap_model(self, model):
        return model


def trainer(**fields):
    """A stand-in for a trainer, with what all losses read."""
    common = {
        "accelerator": Accelerator(), "aux_loss_enabled": False, "model": SimpleNamespace(training=True),
        "_metrics": {"train": defaultdict(list), "eval": defaultdict(list)}, "_total_train_tokens": 0,
        "maybe_activation_offload_context": nullcontext(), "use_liger_kernel": False, "_tp_size": 1,
    }  # fmt: skip
    return SimpleNamespace(**{**common, **fields})


def double(values):
    return torch.tensor(values, dtype=torch.float64)


def fixed(logits):
    """A model with given outputs; with labels it gives what TRL's fused head does: 0 where a label is -100."""

    def model(labels=None, **inputs):
        if labels is None:
            return SimpleNamespace(logits=logits)
        labels = labels[:, 1:]
        logprobs = logits[:, :-1].log_softmax(-1).gather(-1, labels.clamp(min=0)[..., None])[..., 0]
        zeros = torch.zeros_like(logprobs)
        return SimpleNamespace(
            log_probs=logprobs.where(labels >= 0, 0.0), entropy=zeros, mean_logits=zeros, is_top1=zeros.bool()
        )

    return model


def grpo(case):
    logprobs, mask = double(case["new"]).requires_grad_(), torch.tensor(case["mask"])
    zeros = torch.zeros_like(mask)
    args = SimpleNamespace(delta=None, use_bias_correction_kl=False, steps_per_generation=1)
    self = trainer(
        args=args, loss_type=case["loss_type"], beta=case.get("beta", 0.0), epsilon_low=case["low"],
        epsilon_high=case["high"], importance_sampling_level=case.get("level", "token"), top_entropy_quantile=1.0,
        off_policy_mask_threshold=None, use_vllm="ratio" in case, vllm_importance_sampling_correction=True,
        max_completion_length=case["max_length"], current_gradient_accumulation_steps=1, _entropy_bonus_enabled=False,
        _get_per_token_logps_and_entropies=lambda *a, **k: (logprobs, torch.zeros_like(logprobs), None),
    )  # fmt: skip
    inputs = {
        "prompt_ids": zeros[:, :1], "prompt_mask": zeros[:, :1], "completion_ids": zeros, "completion_mask": mask,
        "advantages": double(case["advantages"]), "old_per_token_logps": double(case["old"]),
        "ref_per_token_logps": double(case["ref"]), "num_items_in_batch": mask.sum(),
    }  # fmt: skip
    if "ratio" in case:
        inputs["importance_sampling_ratio"] = double(case["ratio"])
    return GRPOTrainer._compute_loss(self, None, inputs), logprobs


def dpo(case):
    logits = double(case["logits"]).requires_grad_()
    self = trainer(
        ld_alpha=None, precompute_ref_logps=True, f_divergence_type="reverse_kl", loss_types=[case["loss_type"]],
        loss_weights=[1.0], beta=case["beta"], label_smoothing=case.get("smoothing", 0.0), use_weighting=False,
    )  # fmt: skip
    ids, mask = torch.tensor(case["ids"]), torch.tensor(case["mask"])
    ref_chosen, ref_rejected = double(case["ref"]).chunk(2)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "completion_mask": mask,
              "ref_chosen_logps": ref_chosen, "ref_rejected_logps": ref_rejected}  # fmt: skip
    return DPOTrainer._compute_loss(self, fixed(logits), inputs, False), logits


def kto(case):
    logits = double(case["logits"]).requires_grad_()
    self = trainer(
        precompute_ref_logps=True, calculate_KL=True, loss_type="kto", beta=case["beta"], desirable_weight=case["good"],
        undesirable_weight=case["bad"], _compute_kl_logps=lambda model, batch: double(case["kl_logps"]),
    )  # fmt: skip
    ids = torch.tensor(case["ids"])
    inputs = {
        "input_ids": ids, "attention_mask": torch.ones_like(ids), "completion_mask": torch.tensor(case["mask"]),
        "label": torch.tensor(case["label"]), "ref_logps": double(case["ref"]),
        "ref_KL_logps": double(case["kl_ref_logps"]),
    }  # fmt: skip
    return KTOTrainer._compute_loss(self, fixed(logits), inputs, False), logits


def sft(case):
    logits = double(case["logits"]).requires_grad_()
    labels = torch.tensor(case["ids"]).masked_fill(torch.tensor(case["mask"]) == 0, -100)
    return ForCausalLMLoss(logits.float(), labels, logits.shape[-1]), logits


def reward(case):
    scores = double(case["scores"]).requires_grad_()
    self = trainer(args=SimpleNamespace(center_rewards_coefficient=case["centering"]))
    inputs = {"attention_mask": torch.ones(1)}
    if "margin" in case:
        inputs["margin"] = double(case["margin"])
    return RewardTrainer.compute_loss(self, fixed(scores[:, None]), inputs), scores


def simpo(case):
    sums = double(case["means"]).requires_grad_()
    self = trainer(alpha=0.0, beta=case["beta"], loss_type="simpo", simpo_gamma=case["gamma"], label_smoothing=0.0)
    return CPOTrainer.cpo_loss(self, sums[:, 0], sums[:, 1])[0].mean(), sums


def orpo(case):
    means = double(case["means"]).requires_grad_()
    losses = ORPOTrainer.odds_ratio_loss(trainer(beta=case["weight"]), means[:, 0], means[:, 1])[0]
    return -losses.mean(), means


def gkd(case):
    student = double(case["student"]).requires_grad_()
    loss = GKDTrainer.generalized_jsd_loss(student[None], double(case["teacher"])[None], beta=case["beta"])
    return loss, student


def answer(case):
    loss, leaf = globals()[case["trainer"]](case)
    loss.backward()
    return [loss.item(), leaf.grad.tolist()]


if __name__ == "__main__":
    versions = {name: version(name) for name in ("trl", "torch", "transformers")}
    answers = [answer(case) for case in json.load(sys.stdin)]
    sys.stdout.write(json.dumps({"versions": versions, "answers": answers}) + "\n")
