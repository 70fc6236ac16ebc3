"""The local engine against transformers' generate, plain forwards and exact probabilities."""

import re

import pytest
import torch
from transformers import PreTrainedModel

from burnish.chat.template import Chat
from burnish.core.errors import ConfigError
from burnish.core.types import Completion
from burnish.engine.local import open_engine
from burnish.engine.types import Request, SamplingParams
from burnish.models.tiny import tiny_tokenizer
from tests.fakes import ARCHITECTURES, plain_copy, random_model, tiny_chat, tiny_loaded

GREEDY = SamplingParams(temperature=0, max_new_tokens=24)


def _prompts(num_prompts: int, seed: int = 0) -> list[tuple[int, ...]]:
    """Ragged prompts of bytes, 3 to 40 long."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(3, 41, (num_prompts,), generator=generator).tolist()
    return [tuple(torch.randint(0, 256, (n,), generator=generator).tolist()) for n in lengths]


def _sample(
    model: PreTrainedModel, requests: list[Request], max_rows: int = 16, chat: Chat | None = None
) -> dict[tuple[int, int], Completion]:
    engine = open_engine(model, chat or tiny_chat(), max_rows=max_rows, version=lambda: 7)
    return {(f.request, f.sample): f.completion for f in engine.sample(requests)}


def _generate(model: PreTrainedModel, prompts: list[tuple[int, ...]], max_new_tokens: int) -> list[tuple[int, ...]]:
    """What transformers generates greedily, all prompts at once, padded on the left."""
    longest = max(map(len, prompts))
    out_P_T = model.generate(
        torch.tensor([(256,) * (longest - len(p)) + p for p in prompts]),
        attention_mask=torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts]),
        do_sample=False,
        max_new_tokens=max_new_tokens,
        eos_token_id=258,
        pad_token_id=256,
    )
    replies = [tuple(row[longest:]) for row in out_P_T.tolist()]
    return [reply[: reply.index(258) + 1] if 258 in reply else reply for reply in replies]


def _filtered_logprobs(logits_V: torch.Tensor, params: SamplingParams) -> torch.Tensor:
    """The distribution to sample from, written plainly: one filter after another on a sorted list."""
    probs_V = torch.softmax(logits_V.double() / (params.temperature or 1), -1)
    order = probs_V.argsort(descending=True).tolist()
    kept = order[: params.top_k] if params.top_k else order
    total, mass, nucleus = sum(probs_V[i] for i in kept), 0.0, []
    for i in kept:
        if mass < params.top_p * total:
            nucleus.append(i)
        mass += probs_V[i]
    nucleus = [i for i in nucleus if probs_V[i] >= params.min_p * probs_V[nucleus[0]]]
    logprobs_V = torch.full_like(probs_V, -torch.inf)
    logprobs_V[nucleus] = (probs_V[nucleus] / probs_V[nucleus].sum()).log()
    return logprobs_V


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_greedy_is_what_transformers_generates_on_50_prompts(architecture: str):
    model = random_model(architecture)
    prompts = _prompts(50)
    requests = [Request(prompt_ids=p, seed=1, num_samples=1 + i % 3, params=GREEDY) for i, p in enumerate(prompts)]
    ours = _sample(model, requests)
    expected = _generate(plain_copy(model), prompts, 24)
    assert [ours[i, i % 3].token_ids for i in range(50)] == expected
    assert all(ours[i, sample].token_ids == expected[i] for i, sample in ours)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=0, max_new_tokens=12),
        SamplingParams(temperature=0.7, max_new_tokens=12),
        SamplingParams(temperature=1.3, top_k=20, top_p=0.8, min_p=0.05, max_new_tokens=12),
    ],
)
def test_logprobs_are_of_the_distribution_sampled_from(architecture: str, params: SamplingParams):
    model = random_model(architecture)
    prompts = _prompts(4)
    done = _sample(model, [Request(prompt_ids=p, seed=i, num_samples=2, params=params) for i, p in enumerate(prompts)])
    plain = plain_copy(model)
    for (request, _), completion in done.items():
        ids_T = torch.tensor([*prompts[request], *completion.token_ids])
        logits_T_V = plain(ids_T[None]).logits[0]
        for step, (token_id, logprob) in enumerate(zip(completion.token_ids, completion.logprobs, strict=True)):
            expected_V = _filtered_logprobs(logits_T_V[len(prompts[request]) + step - 1], params)
            assert logprob == pytest.approx(expected_V[token_id].item(), abs=1e-4)


def test_samples_are_distributed_as_the_model_says():
    """Chi-square over the first token of 6,000 samples, the 20 likeliest tokens against the rest."""
    model = random_model("llama")
    prompt, num_samples = _prompts(1)[0], 6000
    params = SamplingParams(temperature=0.9, max_new_tokens=1)
    done = _sample(model, [Request(prompt_ids=prompt, seed=5, num_samples=num_samples, params=params)], max_rows=2000)
    probs_V = torch.softmax(plain_copy(model)(torch.tensor([prompt])).logits[0, -1] / 0.9, -1)
    likely = probs_V.topk(20).indices
    counts_V = torch.bincount(torch.tensor([c.token_ids[0] for c in done.values()]), minlength=len(probs_V))
    observed = torch.cat([counts_V[likely], counts_V.sum()[None] - counts_V[likely].sum()])
    expected = torch.cat([probs_V[likely], 1 - probs_V[likely].sum()[None]]) * num_samples
    chi_square = ((observed - expected) ** 2 / expected).sum().item()
    assert chi_square < 45.3  # 0.1 % point of 20 degrees of freedom


def test_a_sample_does_not_depend_on_what_is_sampled_beside_it():
    model = random_model("gemma3")
    params = SamplingParams(max_new_tokens=20)
    requests = [Request(prompt_ids=p, seed=i, num_samples=3, params=params) for i, p in enumerate(_prompts(6))]
    together = _sample(model, requests, max_rows=64)
    for i, request in enumerate(requests):
        alone = _sample(model, [request], max_rows=2)
        assert all(alone[0, s].token_ids == together[i, s].token_ids for s in range(3))


def test_samples_of_one_request_differ_and_equal_seeds_repeat():
    model = tiny_loaded().model
    request = Request(prompt_ids=(1, 2, 3), seed=4, num_samples=8, params=SamplingParams(max_new_tokens=10))
    first, second = _sample(model, [request]), _sample(model, [request])
    assert first == second
    assert len({c.token_ids for c in first.values()}) == 8


def test_mixed_parameters_share_a_wave():
    model = random_model("llama")
    prompt = _prompts(1)[0]
    kinds = [GREEDY, SamplingParams(top_k=1, max_new_tokens=24), SamplingParams(max_new_tokens=3)]
    done = _sample(model, [Request(prompt_ids=prompt, seed=0, params=kind) for kind in kinds])
    assert done[0, 0].token_ids == done[1, 0].token_ids
    assert len(done[2, 0].token_ids) <= 3
    assert all(logprob == 0 for logprob in done[1, 0].logprobs)


def test_a_sampled_stop_token_is_kept_and_ends_the_sample():
    model = random_model("llama")
    params = SamplingParams(temperature=2.5, max_new_tokens=120)
    done = _sample(model, [Request(prompt_ids=(1, 2), seed=3, num_samples=16, params=params)], max_rows=32)
    ended = [c for c in done.values() if c.stop_reason == "eos"]
    assert ended
    assert all(c.token_ids[-1] == 258 and 258 not in c.token_ids[:-1] for c in ended)
    assert all("<|im_end|>" not in c.text for c in ended)
    assert all(len(c.token_ids) == 120 for c in done.values() if c.stop_reason == "length")


def test_a_stop_string_ends_the_sample_and_is_cut_from_its_text():
    model = random_model("llama")
    free = _sample(model, [Request(prompt_ids=(1, 2), seed=3, params=SamplingParams(max_new_tokens=60))])[0, 0]
    stop = re.search(r"[!-~]{2}", free.text[8:])[0]
    params = SamplingParams(max_new_tokens=60, stop=("never said", stop))
    done = _sample(model, [Request(prompt_ids=(1, 2), seed=3, params=params)])[0, 0]
    assert done.stop_reason == "stop_string"
    assert done.token_ids == free.token_ids[: len(done.token_ids)]
    assert done.text == free.text[: free.text.index(stop)]
    assert tiny_tokenizer().decode(list(done.token_ids)).startswith(done.text + stop)
    assert stop not in tiny_tokenizer().decode(list(done.token_ids[:-1]))


@pytest.mark.parametrize("max_rows", [1, 3, 5])
def test_requests_larger_than_a_wave_are_split_and_complete(max_rows: int):
    model = tiny_loaded().model
    params = SamplingParams(max_new_tokens=2)
    requests = [Request(prompt_ids=p, seed=i, num_samples=4, params=params) for i, p in enumerate(_prompts(3))]
    assert sorted(_sample(model, requests, max_rows=max_rows)) == [(r, s) for r in range(3) for s in range(4)]


def test_a_completion_carries_the_version_at_the_start_of_its_wave():
    versions = iter([1, 2])
    engine = open_engine(tiny_loaded().model, tiny_chat(), max_rows=1, version=lambda: next(versions))
    requests = [Request(prompt_ids=(1, 2), seed=i, params=SamplingParams(max_new_tokens=2)) for i in range(2)]
    assert [f.completion.policy_version for f in engine.sample(requests)] == [1, 2]


def test_sampling_leaves_gradients_on():
    engine = open_engine(tiny_loaded().model, tiny_chat(), max_rows=2, version=lambda: 0)
    for _ in engine.sample([Request(prompt_ids=(1, 2), seed=0, num_samples=2)]):
        assert torch.is_grad_enabled()
        assert not torch.is_inference_mode_enabled()


@pytest.mark.parametrize(("prompt_length", "message"), [(0, "empty prompt"), (4090, "context of 4096")])
def test_a_request_that_cannot_be_sampled_is_refused(prompt_length: int, message: str):
    with pytest.raises(ConfigError, match=message):
        _sample(tiny_loaded().model, [Request(prompt_ids=(1,) * prompt_length, seed=0)])
