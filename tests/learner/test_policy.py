"""The learner divides once: packing, accumulation and shared prompts change nothing."""

import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from burnish.core.errors import InvariantError, RunFolderError
from burnish.learner.packing import Row, pack
from burnish.learner.policy import Batch, OptimiserConfig, Policy
from burnish.models.attention import Block, PackedLayout, Span
from burnish.models.export import fingerprint
from burnish.models.forward import checkpoint_activations, hidden_states
from burnish.models.load import load
from burnish.models.lora import add_lora, trainable
from burnish.models.parameters import freeze
from burnish.objectives import Loss, Streams, dapo, kl, sft
from tests.fakes import tiny_loaded


def policy(*, max_pack_tokens: int = 4096, lora: bool = False) -> Policy:
    model = tiny_loaded().model
    if lora:
        add_lora(model, rank=4, alpha=8, targets="all-linear", seed=3)
        return Policy(model, trainable(model), max_pack_tokens=max_pack_tokens)
    model.requires_grad_(True)
    return Policy(model, dict(model.named_parameters()), max_pack_tokens=max_pack_tokens)


def row(prompt: Sequence[int], reply: Sequence[int], advantage: float = 1.0) -> Row:
    ids = (*prompt, *reply)
    return Row(
        token_ids=ids,
        was_sampled=(False,) * len(prompt) + (True,) * len(reply),
        advantage=advantage,
        rollout_logprobs=(0.0,) * len(prompt) + (-1.0,) * len(reply),
    )


PROMPT = tuple(range(10, 31))
ROWS = [
    row(PROMPT, (40, 41, 42, 43, 44), +1.5),
    row(PROMPT, (50,), -0.5),
    row(PROMPT, (60, 61, 62), +0.25),
    row((7, 8, 9), (70, 71, 72, 73), -1.25),
]


def loss(streams: Streams) -> Loss:
    return dapo.loss(streams, dapo.Config())


def gradients(policy: Policy, rows: Sequence[Row], *, alone: bool = False) -> dict[str, torch.Tensor]:
    whole = Batch(rows=rows, aggregate="token_mean", max_length=8)
    if not alone:
        policy.forward_backward(whole, loss)
    for one in rows if alone else ():
        share = len([t for t in one.was_sampled if t]) / whole.global_weight
        policy.forward_backward(
            Batch(rows=[one], aggregate="token_mean", max_length=8),
            lambda s, share=share: Loss(total=loss(s).total * share, metrics={}),
        )
    return {name: master.grad.clone() for name, master in policy.masters.items() if master.grad is not None}


@pytest.mark.parametrize("max_pack_tokens", [10_000, 30, 4])
def test_packing_with_a_shared_prompt_gives_the_gradient_of_separate_sequences(max_pack_tokens: int) -> None:
    separate = gradients(policy(), ROWS, alone=True)
    packed = gradients(policy(max_pack_tokens=max_pack_tokens), ROWS)
    assert max(g.abs().max() for g in separate.values()) > 1e-3
    for name, gradient in packed.items():
        torch.testing.assert_close(gradient, separate[name], atol=1e-5, rtol=1e-4)


TURNS = row(PROMPT, tuple(range(40, 70)), +0.75)
TRAJECTORIES = [
    TURNS,
    replace(TURNS, was_sampled=(False,) * 21 + (True,) * 4 + (False,) * 6 + (True,) * 20, advantage=-1.5),
    row(TURNS.token_ids, (7, 8, 9), +2.0),
    row((*TURNS.token_ids[:40], *range(90, 120)), (1, 2, 3, 4), -1.0),
    row((*TURNS.token_ids[:40], *range(90, 110)), (5,), +1.0),
]
"""One row with two sampled spans, a row that goes on from another's reply, two that branch off within a reply."""


@pytest.mark.parametrize("max_pack_tokens", [10_000, 75, 4])
def test_trajectories_that_share_turns_give_the_gradient_of_separate_sequences(max_pack_tokens: int) -> None:
    separate = gradients(policy(), TRAJECTORIES, alone=True)
    packed = gradients(policy(max_pack_tokens=max_pack_tokens), TRAJECTORIES)
    for name, gradient in packed.items():
        torch.testing.assert_close(gradient, separate[name], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("lora", [False, True])
def test_layers_that_run_again_in_the_backward_pass_give_the_same_gradient(lora: bool) -> None:
    plain, again = policy(lora=lora), policy(lora=lora)
    checkpoint_activations(again.model)
    kept = [numel_kept_for_backward(subject) for subject in (plain, again)]
    assert kept[1] < 0.5 * kept[0]
    one, two = gradients(plain, ROWS), gradients(again, ROWS)
    assert all(torch.equal(one[name], two[name]) for name in one)


def numel_kept_for_backward(subject: Policy) -> int:
    kept: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.numel()) or x, lambda x: x):
        token_ids_T = torch.arange(100)
        hidden_states(subject.model, token_ids_T, token_ids_T, PackedLayout([Block(Span(0, 100))]))
    return sum(kept)


def test_a_parameter_in_float32_is_its_own_master_and_one_in_bfloat16_follows_it() -> None:
    subject = policy()
    assert all(subject.masters[name] is p for name, p in subject.model.named_parameters())
    model = load("tiny", dtype="bfloat16").model.requires_grad_(True)
    half = Policy(model, dict(model.named_parameters()))
    half.forward_backward(Batch(rows=ROWS, aggregate="token_mean", max_length=8), loss)
    half.optim_step(1e-4)
    for name, parameter in half.model.named_parameters():
        assert half.masters[name].dtype == torch.float32
        assert torch.equal(parameter, half.masters[name].bfloat16())
    assert any(not torch.equal(p.float(), half.masters[n]) for n, p in half.model.named_parameters())


def test_frozen_parts_get_no_gradient_and_do_not_move() -> None:
    model = tiny_loaded().model.requires_grad_(True)
    freeze(model, [r"layers\.0\.", "embed"])
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    subject = Policy(model, trainable(model))
    subject.forward_backward(Batch(rows=ROWS, aggregate="token_mean", max_length=8), loss)
    assert all((p.grad is not None) == p.requires_grad for p in model.parameters())
    subject.optim_step(1e-2)
    moved = {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}
    assert moved == set(subject.masters)


def test_packed_logprobs_equal_those_of_a_plain_forward() -> None:
    subject = policy()
    scored = subject.logprobs(ROWS, temperature=0.7)
    for one, logprobs in zip(ROWS, scored, strict=True):
        subject.model.set_attn_implementation("eager")
        logits = subject.model(input_ids=torch.tensor([one.token_ids])).logits[0] / 0.7
        subject.model.set_attn_implementation("burnish")
        expected = logits.log_softmax(-1)[:-1].gather(-1, torch.tensor(one.token_ids)[1:, None])[:, 0]
        torch.testing.assert_close(logprobs, expected[-one.num_trained :].detach(), atol=1e-5, rtol=1e-5)


def test_a_sequence_does_not_see_its_neighbours() -> None:
    other = row((9, 9, 9, 9, 9), (9, 9, 9))
    alone = policy().logprobs(ROWS[:2], 1.0)
    beside = policy().logprobs([other, *ROWS[:2], other], 1.0)[1:3]
    for one, two in zip(alone, beside, strict=True):
        torch.testing.assert_close(one, two, atol=1e-5, rtol=1e-5)


def test_rows_with_one_prompt_compute_it_once() -> None:
    packs = list(pack(ROWS[:3], 4096))
    assert len(packs) == 1
    assert len(packs[0].token_ids_T) == len(PROMPT) + 4 + 0 + 2


def test_a_pack_keeps_to_its_budget_unless_one_sequence_is_larger() -> None:
    sizes = [len(piece.token_ids_T) for piece in pack(ROWS, 26)]
    assert max(sizes) <= 26
    assert [len(piece.row_indices) for piece in pack(ROWS, 3)] == [1, 1, 1, 1]


@pytest.mark.parametrize("lora", [False, True])
def test_an_update_lowers_the_loss_it_was_made_for(lora: bool) -> None:
    subject = policy(lora=lora)
    subject.reset_optimiser(OptimiserConfig())
    batch = Batch(rows=ROWS, aggregate=sft.AGGREGATION, max_length=8)
    losses = []
    for _ in range(3):
        losses.append(subject.forward_backward(batch, lambda s: sft.loss(s, sft.Config()))["loss"])
        subject.optim_step(5e-3)
    assert losses[2] < losses[1] < losses[0]
    assert subject.version == 3


def test_only_adapters_train_when_there_are_adapters() -> None:
    subject = policy(lora=True)
    base = {n: p.detach().clone() for n, p in subject.model.named_parameters() if not p.requires_grad}
    subject.forward_backward(Batch(rows=ROWS, aggregate="token_mean", max_length=8), loss)
    subject.optim_step(1e-2)
    assert base
    assert all(torch.equal(p, base[n]) for n, p in subject.model.named_parameters() if n in base)


def test_clipping_bounds_the_step_by_the_gradient_norm() -> None:
    subject = policy()
    subject.reset_optimiser(OptimiserConfig(max_grad_norm=1e-3))
    subject.forward_backward(Batch(rows=ROWS, aggregate="token_mean", max_length=8), loss)
    before = {name: master.grad.clone() for name, master in subject.masters.items() if master.grad is not None}
    norm = subject.optim_step(0.0)
    assert norm == pytest.approx(float(torch.stack([g.norm() for g in before.values()]).norm()), rel=1e-5)
    assert norm > 1e-3


def test_a_checkpoint_brings_back_weights_moments_and_version(tmp_path: Path) -> None:
    one, two = policy(lora=True), policy(lora=True)
    batch = Batch(rows=ROWS, aggregate="token_mean", max_length=8)
    for subject in (one, two):
        subject.forward_backward(batch, loss)
        subject.optim_step(1e-2)
    one.save(tmp_path, with_optimiser=True)
    restored = policy(lora=True)
    restored.load(tmp_path)
    for subject in (two, restored):
        subject.forward_backward(batch, loss)
        subject.optim_step(1e-2)
    assert fingerprint(restored.model) == fingerprint(two.model) != fingerprint(one.model)
    assert restored.version == 2


def test_metrics_are_means_over_tokens_whatever_the_aggregation() -> None:
    def ratio(kind: str) -> float:
        batch = Batch(rows=ROWS, aggregate=kind, max_length=8)  # pyright: ignore[reportArgumentType]
        return policy().forward_backward(batch, loss)["ratio"]

    assert [ratio(k) for k in ("token_mean", "seq_mean_token_sum", "sum_over_max_length")] == pytest.approx([1, 1, 1])


def test_a_loss_that_is_not_finite_stops_the_run() -> None:
    with pytest.raises(InvariantError, match="not finite"):
        policy().forward_backward(
            Batch(rows=ROWS, aggregate="token_mean", max_length=8),
            lambda s: Loss(total=s.new_logprobs_T.sum() * float("nan"), metrics={}),
        )


def test_a_frozen_policy_scores_by_its_weights_and_the_policy_by_its_own() -> None:
    subject = policy()
    at_start, reference = subject.logprobs(ROWS, 1.0), subject.frozen()
    subject.forward_backward(Batch(rows=ROWS, aggregate="token_mean", max_length=8), loss)
    subject.optim_step(1e-2)
    scored = reference.logprobs(ROWS, 1.0)
    assert all(torch.equal(one, two) for one, two in zip(at_start, scored, strict=True))
    assert not torch.equal(subject.logprobs(ROWS, 1.0)[0], at_start[0])


@contextmanager
def no_file_larger_than(num_bytes: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("num_bytes", [200, 2_000, 300_000])
def test_a_checkpoint_that_does_not_fit_is_a_fault_of_the_run_folder(num_bytes: int, tmp_path: Path) -> None:
    trained = policy()
    trained.reset_optimiser(OptimiserConfig())
    batch = Batch(rows=ROWS, aggregate=sft.AGGREGATION, max_length=8)
    trained.forward_backward(batch, lambda streams: sft.loss(streams, sft.Config()))
    trained.optim_step(1e-3)
    with no_file_larger_than(num_bytes), pytest.raises(RunFolderError, match="go on by --resume"):
        trained.save(tmp_path, with_optimiser=True)


@pytest.mark.parametrize("name", ["masters.safetensors", "policy.pt", "optimiser.pt"])
@pytest.mark.parametrize("content", [b"", b"no checkpoint"])
def test_a_damaged_checkpoint_is_named(name: str, content: bytes, tmp_path: Path) -> None:
    trained = policy()
    trained.reset_optimiser(OptimiserConfig())
    trained.save(tmp_path, with_optimiser=True)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(RunFolderError, match="damaged"):
        trained.load(tmp_path)


def test_the_kl_to_the_references_likeliest_tokens_trains_whatever_the_packing():
    """With k the vocabulary it is the divergence of whole distributions, from plain forwards."""
    gradients = []
    for max_pack_tokens in (1000, 1):
        subject = policy(max_pack_tokens=max_pack_tokens)
        beginning = subject.frozen()
        with torch.no_grad():
            for parameter in subject.masters.values():
                parameter.mul_(1.05)
        vocabulary = subject.model.config.vocab_size
        top = beginning.top_tokens(ROWS, vocabulary, 0.7)
        refs = beginning.logprobs(ROWS, 0.7)
        batch = Batch(rows=ROWS, aggregate="token_mean", max_length=1, temperature=0.7, ref_logprobs=refs, ref_top=top)
        metrics = subject.forward_backward(batch, lambda s: kl.penalty(s, "top_k", 1.0))
        assert metrics["loss"] == pytest.approx(metrics["kl_top_k"])
        assert metrics["loss"] > 1e-4
        gradients.append({name: master.grad for name, master in subject.masters.items()})
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradient, gradients[1][name], atol=1e-6, rtol=1e-4)
