"""An update through packs, shared prefixes and streams is that of one plain forward a row.

The rows share a prompt of 20 tokens, one has two turns of the model, one begins with what another says, and no length
is another's. What the loss sees of each row is put together here by hand.
"""

import torch
from torch import Tensor

from burnish.learner.batch import Batch
from burnish.learner.packing import Row
from burnish.learner.policy import LossFunction, Policy
from burnish.models.fused_head import TopTokens
from burnish.objectives import Loss, Streams, aggregation, entropy, grpo, kl, ops
from tests.fakes import plain_copy, random_model

PROMPT = tuple(range(10, 30))
TEMPERATURE, SHARE = 0.7, 0.5


def row(reply: tuple[int, ...], advantage: float, observed: int = 0, prompt: tuple[int, ...] = PROMPT) -> Row:
    """`observed` tokens behind the first two of the reply are the environment's."""
    ids, num = (*prompt, *reply), len(reply)
    masks = [not 2 <= place < 2 + observed for place in range(num)]
    return Row(
        token_ids=ids, was_sampled=(*[False] * len(prompt), *masks), advantage=advantage,
        rollout_logprobs=tuple(-1.0 - 0.1 * (place % 7) for place in range(len(ids))),
    )  # fmt: skip


ROWS = [
    row((40, 41, 42, 43, 44, 45, 46), 1.5, observed=3),
    row((50,), -0.5),
    row((60, 61, 62), 0.25),
    row((70, 71), -1.25, prompt=(*PROMPT, 40, 41, 42, 9, 8)),
    row((80, 81, 82, 83, 84), 0.75, prompt=(7, 8, 9)),
]


def loss(s: Streams) -> Loss:
    """All that a stream may hold, in one sum."""
    policy = grpo.loss(s, grpo.Config(clip_low=0.3, clip_high=0.4, ratio_to_sampler=True))
    proximal = (ops.required(s.old_logprobs_T, "old_logprobs_T") * s.new_logprobs_T * s.weights_T).sum()
    terms = [entropy.bonus(s, 0.2), kl.penalty(s, "top_k", 0.3), Loss(total=0.1 * proximal, metrics={})]
    return ops.add(policy, *terms)


def noise(seed: int, *lengths: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.rand(length, generator=generator) - 1.5 for length in lengths]


LENGTHS = [one.num_trained for one in ROWS]
OLD, REF, GIVEN = noise(1, *LENGTHS), noise(2, *LENGTHS), noise(3, *LENGTHS)
TOP = [
    TopTokens((torch.arange(2 * num).view(num, 2) * 37 + 11) % 259, torch.tensor([[0.5, 0.2]]).log().repeat(num, 1))
    for num in LENGTHS
]


def batch(kind: aggregation.Kind, advantages: list[Tensor] | None = None) -> Batch:
    return Batch(
        rows=ROWS, aggregate=kind, max_length=9, temperature=TEMPERATURE, old_logprobs=OLD, ref_logprobs=REF,
        advantages=advantages, ref_top=TOP, share=SHARE,
    )  # fmt: skip


def plainly(kind: aggregation.Kind, function: LossFunction, advantages: list[Tensor] | None = None):
    """Loss and gradients of plain forwards, a row at a time."""
    model = plain_copy(random_model("llama")).requires_grad_(True)
    weighed = aggregation.weigh(kind, LENGTHS, max_length=9)
    total = torch.zeros(())
    for index, (one, weights_T) in enumerate(zip(ROWS, weighed.weights_T.split(LENGTHS), strict=True)):
        at = [place for place, was_sampled in enumerate(one.was_sampled) if was_sampled]
        logits_T_V = model(torch.tensor([one.token_ids])).logits[0, [place - 1 for place in at]]
        logprobs_T_V = (logits_T_V / TEMPERATURE).log_softmax(-1)
        own = torch.full((len(at),), one.advantage) if advantages is None else advantages[index]
        streams = Streams(
            new_logprobs_T=logprobs_T_V.gather(-1, torch.tensor([[one.token_ids[place]] for place in at]))[:, 0],
            weights_T=weights_T, sequence_T=torch.zeros(len(at), dtype=torch.int64), advantages_T=own,
            old_logprobs_T=OLD[index], ref_logprobs_T=REF[index],
            rollout_logprobs_T=torch.tensor([one.rollout_logprobs[place] for place in at]),
            entropies_T=-(logprobs_T_V.exp() * logprobs_T_V).sum(-1),
            top_logprobs_T_K=logprobs_T_V.gather(-1, TOP[index].ids_N_K), ref_top_logprobs_T_K=TOP[index].logprobs_N_K,
        )  # fmt: skip
        total = total + function(streams).total
    value = total / (weighed.global_weight / SHARE)
    value.backward()
    return value, {name: parameter.grad for name, parameter in model.named_parameters()}


def assert_same_update(kind: aggregation.Kind, advantages: list[Tensor] | None = None) -> None:
    value, gradients = plainly(kind, loss, advantages)
    for max_pack_tokens in (200, 30):
        model = random_model("llama").requires_grad_(True)
        policy = Policy(model, dict(model.named_parameters()), max_pack_tokens=max_pack_tokens)
        metrics = policy.forward_backward(batch(kind, advantages), loss)
        assert abs(metrics["loss"] - float(value.detach())) < 1e-5 * abs(float(value.detach())) + 1e-6, metrics
        for name, gradient in gradients.items():
            torch.testing.assert_close(policy.masters[name].grad, gradient, atol=5e-5, rtol=1e-3)


def check_an_update_is_that_of_plain_forwards():
    assert_same_update("seq_mean_token_mean")


def check_advantages_of_tokens_go_to_their_tokens():
    assert_same_update("token_mean", GIVEN)


def check_scores_are_those_of_plain_forwards():
    model = random_model("llama").requires_grad_(True)
    plain = plain_copy(model).requires_grad_(False)
    for max_pack_tokens in (200, 30):
        policy = Policy(model, dict(model.named_parameters()), max_pack_tokens=max_pack_tokens)
        found = policy.logprobs(ROWS, TEMPERATURE)
        for one, scored_T in zip(ROWS, found, strict=True):
            logprobs_T_V = (plain(torch.tensor([one.token_ids])).logits[0] / TEMPERATURE).log_softmax(-1)
            at = [place for place, was_sampled in enumerate(one.was_sampled) if was_sampled]
            expected_T = torch.stack([logprobs_T_V[place - 1, one.token_ids[place]] for place in at])
            torch.testing.assert_close(scored_T, expected_T, atol=1e-4, rtol=1e-4)


def check_what_a_batch_is_divided_by():
    weights = {"token_mean": 15, "seq_mean_token_mean": 5, "sum_over_max_length": 45, "pair_mean": 2.5}
    for kind, weight in weights.items():
        assert batch(kind).global_weight == weight / SHARE, kind
        assert batch(kind).num_together == (2 if kind == "pair_mean" else 1)
