"""What every engine keeps, whatever samples behind it; the real vLLM is one of them where it is installed."""

import re
from collections import Counter

import pytest
import torch

from burnish.core.errors import ConfigError
from burnish.engine.types import Request, SamplingParams
from burnish.models.attention import IMPLEMENTATION
from tests.engine.backends.conftest import KINDS, REAL
from tests.engine.backends.model_server import filtered

EVERY = pytest.mark.parametrize("backend", [*KINDS, REAL], indirect=True)
FOLLOWS = pytest.mark.parametrize("backend", ["local", "vllm", "sglang", "sglang inside", REAL], indirect=True)
FILTERS = pytest.mark.parametrize("backend", ["local", "vllm", "http", REAL], indirect=True)


def sample(backend, requests):
    return {(f.request, f.sample): f.completion for f in backend.engine.sample(requests)}


@torch.inference_mode()
def all_logits(model, token_ids):
    """The live model's, by transformers' own attention."""
    model.set_attn_implementation("eager")
    logits_T_V = model(input_ids=torch.tensor([token_ids]), use_cache=False).logits[0].double()
    model.set_attn_implementation(IMPLEMENTATION)
    return logits_T_V


def logits(model, prompt_ids, completion):
    """The live model's at each sampled token."""
    return all_logits(model, [*prompt_ids, *completion.token_ids])[len(prompt_ids) - 1 : -1]


def requests_of(backend, num, **params):
    return [
        Request(prompt_ids=p, seed=i, num_samples=2, params=SamplingParams(**params))
        for i, p in enumerate(backend.prompts(num))
    ]


def gap(backend, requests, done, options):
    """The largest distance of a log-probability to that of the live model."""
    return max(
        abs(filtered(logits_V, options)[token_id].item() - logprob)
        for (request, _), completion in done.items()
        for logits_V, token_id, logprob in zip(
            logits(backend.model, requests[request].prompt_ids, completion),
            completion.token_ids, completion.logprobs, strict=True,
        )
    )  # fmt: skip


OFF = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0}


@EVERY
def test_greedy_takes_the_live_models_likeliest_token(backend):
    requests = requests_of(backend, 3, temperature=0, max_new_tokens=12)
    for (request, _), completion in sample(backend, requests).items():
        logits_T_V = logits(backend.model, requests[request].prompt_ids, completion)
        chosen_T = logits_T_V.gather(-1, torch.tensor(completion.token_ids)[:, None])[:, 0]
        assert (logits_T_V.amax(-1) - chosen_T).max() < backend.tolerance


@EVERY
def test_logprobs_are_of_the_temperature_that_was_sampled_at(backend):
    requests = requests_of(backend, 2, temperature=0.6, max_new_tokens=10)
    assert gap(backend, requests, sample(backend, requests), OFF | {"temperature": 0.6}) < backend.tolerance


@FILTERS
@pytest.mark.parametrize("options", [{"top_k": 4}, {"top_p": 0.7}, {"min_p": 0.2}, {"top_k": 9, "top_p": 0.8}])
def test_logprobs_are_of_what_the_filters_leave(backend, options):
    requests = requests_of(backend, 2, max_new_tokens=8, **options)
    assert gap(backend, requests, sample(backend, requests), OFF | options) < backend.tolerance


@EVERY
def test_each_sample_comes_once_and_says_which_weights_drew_it(backend):
    requests = requests_of(backend, 4, max_new_tokens=2)
    done = list(backend.engine.sample(requests))
    assert Counter((f.request, f.sample) for f in done) == Counter({(r, s): 1 for r in range(4) for s in range(2)})
    assert {version for f in done for version in f.completion.versions} == {3}


@pytest.mark.parametrize("backend", [*KINDS, REAL], indirect=True)
def test_samples_of_one_request_differ_and_equal_seeds_repeat(backend):
    request = Request(prompt_ids=backend.prompts(1)[0], seed=4, num_samples=4, params=SamplingParams(max_new_tokens=10))
    first = sample(backend, [request])
    assert sample(backend, [request]) == first
    assert len({completion.token_ids for completion in first.values()}) == 4


@EVERY
def test_a_sampled_stop_token_is_kept_and_is_no_text(backend):
    params = SamplingParams(temperature=1.5, max_new_tokens=40)
    done = sample(backend, [Request(prompt_ids=backend.prompts(1)[0], seed=3, num_samples=16, params=params)])
    ended = [c for c in done.values() if c.stop_reason == "eos"]
    assert ended
    assert all(c.token_ids[-1] in backend.chat.stop_ids for c in ended)
    assert all(c.text == backend.chat.decode(c.token_ids) for c in done.values())
    assert all(len(c.token_ids) == 40 for c in done.values() if c.stop_reason == "length")


@EVERY
def test_a_stop_string_ends_the_sample_and_is_cut_from_its_text(backend):
    prompt_ids = backend.prompts(2)[1]
    free_params = SamplingParams(temperature=0, max_new_tokens=30)
    free = sample(backend, [Request(prompt_ids=prompt_ids, seed=3, params=free_params)])[0, 0]
    stop = re.search(r"[!-~]{2}", free.text[4:])[0]
    params = SamplingParams(temperature=0, max_new_tokens=30, stop=("never said", stop))
    done = sample(backend, [Request(prompt_ids=prompt_ids, seed=3, params=params)])[0, 0]
    assert done.stop_reason == "stop_string"
    assert done.token_ids == free.token_ids[: len(done.token_ids)]
    assert done.text == free.text[: free.text.index(stop)]


@FOLLOWS
def test_new_weights_are_sampled_from_at_once_and_stamped(backend):
    requests = requests_of(backend, 2, max_new_tokens=8)
    sample(backend, requests)
    backend.move(0.05)
    done = sample(backend, requests)
    assert {version for completion in done.values() for version in completion.versions} == {4}
    assert gap(backend, requests, done, OFF) < backend.tolerance


@EVERY
def test_prompts_are_scored_at_temperature_1(backend):
    prompt_ids = backend.prompts(2)[1]
    params = SamplingParams(temperature=0.5, max_new_tokens=1)
    request = Request(prompt_ids=prompt_ids, seed=0, params=params, prompt_logprobs=True)
    completion = sample(backend, [request])[0, 0]
    logprobs_T_V = all_logits(backend.model, prompt_ids).log_softmax(-1)
    expected = [logprobs_T_V[i, token_id].item() for i, token_id in enumerate(prompt_ids[1:])]
    assert completion.prompt_logprobs == pytest.approx(expected, abs=backend.tolerance)


@EVERY
def test_the_likeliest_tokens_are_told_in_falling_order(backend):
    requests = requests_of(backend, 1, temperature=0.8, max_new_tokens=3, top_logprobs=4)
    completion = sample(backend, requests)[0, 0]
    best = (logits(backend.model, requests[0].prompt_ids, completion) / 0.8).log_softmax(-1).topk(4)
    assert [[i for i, _ in place] for place in completion.top_logprobs] == best.indices.tolist()
    told = [value for place in completion.top_logprobs for _, value in place]
    assert told == pytest.approx(best.values.flatten().tolist(), abs=backend.tolerance)


@EVERY
@pytest.mark.parametrize(("length", "message"), [(0, "empty prompt"), (5000, "context of")])
def test_a_request_that_cannot_be_sampled_is_refused_before_it_is_sent(backend, length, message):
    with pytest.raises(ConfigError, match=message):
        sample(backend, [Request(prompt_ids=(1,) * length, seed=0)])


@EVERY
def test_a_cancelled_request_is_not_heard_of_again(backend):
    request = Request(prompt_ids=backend.prompts(1)[0], seed=1, params=SamplingParams(max_new_tokens=60))
    unwanted, wanted = backend.engine.submit(request), backend.engine.submit(request)
    backend.engine.cancel(unwanted)
    numbers = set()
    while events := backend.engine.step():
        numbers |= {event.request for event in events}
    assert numbers == {wanted}
