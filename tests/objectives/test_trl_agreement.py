"""Agreement with TRL on the same inputs: losses and gradients, where both mean the same.

TRL is no dependency: the test runs where `trl` can be imported, or by the interpreter that BURNISH_TRL_PYTHON
names. What differs between the two is told in docs/objectives.md.
"""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from burnish.objectives import Streams, aggregation, bradley_terry, correction, gkd, kl, ops, pairs, sft
from burnish.objectives.dialects import choose
from burnish.objectives.preferences import kto, orpo, simpo

PYTHON = os.environ.get("BURNISH_TRL_PYTHON") or (sys.executable if importlib.util.find_spec("trl") else "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON, reason="no TRL here; set BURNISH_TRL_PYTHON to an interpreter that has it"),
]
LENGTHS = [3, 2, 4, 1]
MASK = [[int(t < length) for t in range(4)] for length in LENGTHS]
IDS = [[1, 2, 3, 4, 5], [1, 2, 4, 3, 0], [1, 5, 2, 0, 3], [1, 5, 4, 4, 2]]
REPLY = [[0, 0, 1, 1, 1], [0, 0, 1, 1, 0], [0, 0, 1, 1, 1], [0, 0, 1, 0, 0]]


def drawn(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


NEW, OLD, REF, ROLLOUT = (-drawn(4, 4, seed=seed).abs() - 0.1 for seed in (1, 2, 3, 4))
ADVANTAGES, LOGITS, REF_SUMS = drawn(4, seed=5), drawn(4, 5, 6, seed=6), drawn(4, seed=7) - 6
KL_SUMS, KL_REF_SUMS = drawn(4, seed=8), drawn(4, seed=8) - 0.4
SCORES, TEACHER = drawn(4, seed=9), drawn(5, 6, seed=10)
Case = dict[str, object]
Ours = Callable[[], tuple[Tensor, Tensor]]
CASES: dict[str, tuple[Case, Ours]] = {}


def of_rollouts(new: Tensor, kind: aggregation.Kind) -> tuple[Streams, float]:
    is_token = torch.tensor(MASK).bool()
    weighed = aggregation.weigh(kind, LENGTHS, max_length=8, dtype=torch.float64)
    sequence_T = torch.arange(4).repeat_interleave(torch.tensor(LENGTHS))
    streams = Streams(
        new_logprobs_T=new[is_token], old_logprobs_T=OLD[is_token], ref_logprobs_T=REF[is_token],
        rollout_logprobs_T=ROLLOUT[is_token], weights_T=weighed.weights_T, sequence_T=sequence_T,
        advantages_T=ADVANTAGES[sequence_T],
    )  # fmt: skip
    return streams, weighed.global_weight


def of_logits(logits: Tensor, signs: Tensor, order: list[int], kind: aggregation.Kind) -> tuple[Streams, float]:
    """The streams of replies, from a model's logits; `order` puts TRL's rows (chosen first) into pairs."""
    logprobs = logits[:, :-1].log_softmax(-1).gather(-1, torch.tensor(IDS)[:, 1:, None])[..., 0]
    is_token = torch.tensor(REPLY)[:, 1:].bool()
    lengths = is_token.sum(1)
    weighed = aggregation.weigh(kind, [int(lengths[i]) for i in order], max_length=1, dtype=torch.float64)
    repeats = lengths[order]
    ref = torch.cat([(REF_SUMS[i] / lengths[i]).expand(int(lengths[i])) for i in order])
    streams = Streams(
        new_logprobs_T=torch.cat([logprobs[i][is_token[i]] for i in order]), ref_logprobs_T=ref,
        weights_T=weighed.weights_T, sequence_T=torch.arange(4).repeat_interleave(repeats),
        advantages_T=signs[order].repeat_interleave(repeats),
    )  # fmt: skip
    return streams, weighed.global_weight


def add_rollout_cases() -> None:
    sent = {"trainer": "grpo", "new": NEW.tolist(), "old": OLD.tolist(), "ref": REF.tolist(), "mask": MASK,
            "advantages": ADVANTAGES.tolist(), "max_length": 8, "low": 0.2, "high": 0.28}  # fmt: skip

    def add(name: str, objective: str, options: dict[str, float], case: Case, kl_weight: float = 0.0) -> None:
        def ours() -> tuple[Tensor, Tensor]:
            choice = choose("objectives", objective)
            new = NEW.clone().requires_grad_()
            streams, divisor = of_rollouts(new, choice.aggregation)
            given = correction.apply(streams, correction.sequence_mask(streams)) if "ratio" in case else streams
            loss = choice.module.loss(given, choice.module.Config(**options))
            if kl_weight:
                loss = ops.add(loss, kl.penalty(streams, "k3", kl_weight))
            return loss.total / divisor, new

        CASES[name] = ({**sent, **case}, ours)

    bounds = {"clip_low": 0.2, "clip_high": 0.28}
    add("grpo", "grpo@trl", bounds, {"loss_type": "grpo"})
    add("grpo with k3", "grpo@trl", bounds, {"loss_type": "grpo", "beta": 0.04}, kl_weight=0.04)
    add("dapo", "dapo@trl", bounds, {"loss_type": "dapo"})
    add("dr_grpo", "dr_grpo@trl", bounds, {"loss_type": "dr_grpo"})
    add("gspo", "gspo@trl", bounds, {"loss_type": "grpo", "level": "sequence"})
    add("cispo", "cispo@trl", {}, {"loss_type": "cispo", "high": 5.0})
    streams, _ = of_rollouts(NEW, "token_mean")
    ratio = torch.zeros(4, 4, dtype=torch.float64)
    ratio[torch.tensor(MASK).bool()] = correction.sequence_mask(streams)
    add("dapo with a sequence mask", "dapo@trl", bounds, {"loss_type": "dapo", "ratio": ratio.tolist()})


def add_preference_cases() -> None:
    sent = {"logits": LOGITS.tolist(), "ids": IDS, "mask": REPLY, "ref": REF_SUMS.tolist(), "beta": 0.1}
    halves = torch.tensor([1.0, 1.0, -1.0, -1.0], dtype=torch.float64)

    def add_pairs(name: str, case: Case) -> None:
        def ours() -> tuple[Tensor, Tensor]:
            choice = choose("preferences", name)
            logits = LOGITS.clone().requires_grad_()
            streams, divisor = of_logits(logits, halves, [0, 2, 3, 1], choice.aggregation)
            return choice.module.loss(streams, choice.config).total / divisor, logits

        CASES[name] = ({**sent, "trainer": "dpo", **case}, ours)

    add_pairs("dpo", {"loss_type": "sigmoid"})
    add_pairs("dpo@robust", {"loss_type": "robust", "smoothing": 0.1})
    add_pairs("ipo@mean", {"loss_type": "ipo"})
    add_pairs("slic@trl", {"loss_type": "hinge"})

    def kto_ours() -> tuple[Tensor, Tensor]:
        logits = LOGITS.clone().requires_grad_()
        streams, divisor = of_logits(logits, labels, [0, 1, 2, 3], kto.AGGREGATION)
        z0 = kto.reference_point(KL_SUMS - KL_REF_SUMS)
        config = kto.Config(desirable_weight=1.5, undesirable_weight=0.5, z0=z0)
        return kto.loss(streams, config).total / divisor, logits

    labels = torch.tensor([1.0, -1.0, -1.0, 1.0], dtype=torch.float64)
    case = {"trainer": "kto", "good": 1.5, "bad": 0.5, "label": (labels > 0).tolist()}
    CASES["kto"] = (
        {**sent, **case, "kl_logps": KL_SUMS.tolist(), "kl_ref_logps": KL_REF_SUMS.tolist()}, kto_ours
    )  # fmt: skip

    def sft_ours() -> tuple[Tensor, Tensor]:
        logits = LOGITS.clone().requires_grad_()
        streams, divisor = of_logits(logits, halves, [0, 1, 2, 3], sft.AGGREGATION)
        return sft.loss(streams, sft.Config()).total / divisor, logits

    CASES["sft"] = ({**sent, "trainer": "sft"}, sft_ours)


def add_other_cases() -> None:
    def rewards(scores: Tensor) -> pairs.Pair:
        return pairs.Pair(chosen_B=scores[:2], rejected_B=scores[2:])

    def add_reward(name: str, margin: list[float], centering: float) -> None:
        def ours() -> tuple[Tensor, Tensor]:
            scores = SCORES.clone().requires_grad_()
            margin_B = torch.tensor(margin, dtype=torch.float64)
            losses_B = bradley_terry.of_rewards(rewards(scores), margin_B=margin_B, centering=centering)
            return losses_B.mean(), scores

        case = {"trainer": "reward", "scores": SCORES.tolist(), "centering": centering or None}
        CASES[name] = ({**case, **({"margin": margin} if any(margin) else {})}, ours)

    add_reward("reward model", [0.0, 0.0], 0.0)
    add_reward("reward model with margin and centring", [0.5, 0.1], 0.01)

    means = (-drawn(3, 2, seed=11).abs() - 0.1).tolist()

    def of_means(loss: Callable[[pairs.Pair], Tensor]) -> Ours:
        def ours() -> tuple[Tensor, Tensor]:
            given = torch.tensor(means, dtype=torch.float64).requires_grad_()
            return loss(pairs.Pair(chosen_B=given[:, 0], rejected_B=given[:, 1])).mean(), given

        return ours

    def simpo_loss(pair: pairs.Pair) -> Tensor:
        """A reply of one token has its sum as its mean."""
        values = torch.stack([pair.chosen_B, pair.rejected_B], 1).flatten()
        signs = torch.tensor([1.0, -1.0] * 3, dtype=torch.float64)
        streams = Streams(
            new_logprobs_T=values, weights_T=torch.ones_like(values), sequence_T=torch.arange(6), advantages_T=signs
        )
        return simpo.loss(streams, simpo.Config()).total[None] / 3

    CASES["simpo"] = ({"trainer": "simpo", "means": means, "beta": 2.0, "gamma": 0.5}, of_means(simpo_loss))
    weigh = lambda pair: 0.1 * orpo.odds_ratio_term(pair)  # noqa: E731
    CASES["orpo, its odds-ratio term"] = ({"trainer": "orpo", "means": means, "weight": 0.1}, of_means(weigh))

    def add_gkd(beta: float) -> None:
        def ours() -> tuple[Tensor, Tensor]:
            student = LOGITS[0].clone().requires_grad_()
            return gkd.divergence(student.log_softmax(-1), TEACHER.log_softmax(-1), beta=beta).sum(), student

        case = {"trainer": "gkd", "student": LOGITS[0].tolist(), "teacher": TEACHER.tolist()}
        CASES[f"gkd at beta {beta}"] = ({**case, "beta": beta}, ours)

    for beta in (0.0, 0.3, 1.0):
        add_gkd(beta)


add_rollout_cases()
add_preference_cases()
add_other_cases()


@pytest.fixture(scope="module")
def theirs() -> dict[str, tuple[float, Tensor]]:
    """TRL's answers to all cases, from one run of its interpreter."""
    run = subprocess.run(
        [PYTHON, str(Path(__file__).parent / "trl_peer.py")], input=json.dumps([case for case, _ in CASES.values()]),
        capture_output=True, text=True, timeout=600, env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
    answers = json.loads(run.stdout.splitlines()[-1])["answers"]
    return {
        name: (loss, torch.tensor(gradient, dtype=torch.float64))
        for name, (loss, gradient) in zip(CASES, answers, strict=True)
    }


@pytest.mark.timeout(700)
@pytest.mark.parametrize("name", CASES)
def test_loss_and_gradient_are_trl_s(name: str, theirs: dict[str, tuple[float, Tensor]]) -> None:
    loss, leaf = CASES[name][1]()
    loss.backward()
    expected, gradient = theirs[name]
    assert leaf.grad is not None
    assert gradient.abs().max() > 1e-4
    torch.testing.assert_close(loss.item(), expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(leaf.grad, gradient, rtol=0, atol=1e-6)
