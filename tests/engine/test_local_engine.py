"""The local engine against transformers' generate, plain forwards and exact probabilities."""

import re

import pytest
import torch
from transformers import PreTrainedModel

from burnish.core.errors import ConfigError, InvariantError
from burnish.core.types import Completion
from burnish.engine.local import LocalEngine, open_engine
from burnish.engine.params import Constraint
from burnish.engine.types import Finished, QueueFull, Request, Sampled, SamplingParams
from burnish.models.tiny import tiny_tokenizer
from tests.fakes import ARCHITECTURES, plain_copy, random_model, tiny_chat, tiny_loaded

GREEDY = SamplingParams(temperature=0, max_new_tokens=24)


def _prompts(num_prompts: int, seed: int = 0) -> list[tuple[int, ...]]:
    """Ragged prompts of bytes, 3 to 40 long."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(3, 41, (num_prompts,), generator=generator).tolist()
    return [tuple(torch.randint(0, 256, (n,), generator=generator).tolist()) for n in lengths]


def _engine(model: PreTrainedModel, max_rows: int = 16, **options) -> LocalEngine:
    """The torch path, unless the options say otherwise."""
    return open_engine(model, tiny_chat(), max_rows=max_rows, version=lambda: 7, options={"path": "torch", **options})


def _sample(
    model: PreTrainedModel, requests: list[Request], max_rows: int = 16, **options
) -> dict[tuple[int, int], Completion]:
    done = _engine(model, max_rows, **options).sample(requests)
    return {(f.request, f.sample): f.completion for f in done}


def _reply(engine: LocalEngine, request: Request) -> Completion:
    """Submit and go on to the end of its first sample."""
    number = engine.submit(request)
    while True:
        for event in engine.step():
            if isinstance(event, Finished) and event.request == number:
                return event.completion


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


@pytest.mark.parametrize("num_prompts", [20, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_greedy_is_what_transformers_generates(architecture: str, num_prompts: int):
    model = random_model(architecture)
    prompts = _prompts(num_prompts)
    requests = [Request(prompt_ids=p, seed=1, num_samples=1 + i % 3, params=GREEDY) for i, p in enumerate(prompts)]
    ours = _sample(model, requests)
    expected = _generate(plain_copy(model), prompts, 24)
    assert [ours[i, i % 3].token_ids for i in range(num_prompts)] == expected
    assert all(ours[i, sample].token_ids == expected[i] for i, sample in ours)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_long_samples_over_many_blocks_are_what_transformers_generates(architecture: str):
    model = random_model(architecture)
    prompts = _prompts(3)
    params = SamplingParams(temperature=0, max_new_tokens=80)
    ours = _sample(
        model, [Request(prompt_ids=p, seed=1, num_samples=2, params=params) for p in prompts], step_tokens=64
    )
    assert [ours[i, 1].token_ids for i in range(3)] == _generate(plain_copy(model), prompts, 80)


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


def test_mixed_parameters_go_together():
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
def test_requests_of_more_samples_than_places_complete(max_rows: int):
    model = tiny_loaded().model
    params = SamplingParams(max_new_tokens=2)
    requests = [Request(prompt_ids=p, seed=i, num_samples=4, params=params) for i, p in enumerate(_prompts(3))]
    assert sorted(_sample(model, requests, max_rows=max_rows)) == [(r, s) for r in range(3) for s in range(4)]


def test_each_token_carries_the_version_that_drew_it():
    versions = [1]
    engine = open_engine(tiny_loaded().model, tiny_chat(), max_rows=1, version=lambda: versions[-1])
    requests = [Request(prompt_ids=(1, 2), seed=i, params=SamplingParams(max_new_tokens=2)) for i in range(2)]
    done: list[tuple[int, ...]] = []
    for finished in engine.sample(requests):
        done.append(finished.completion.versions)
        versions.append(2)
    assert done == [(1, 1), (2, 2)]


def test_sampling_leaves_gradients_on():
    engine = _engine(tiny_loaded().model)
    for _ in engine.sample([Request(prompt_ids=(1, 2), seed=0, num_samples=2)]):
        assert torch.is_grad_enabled()
        assert not torch.is_inference_mode_enabled()


@pytest.mark.parametrize(("prompt_length", "message"), [(0, "empty prompt"), (4090, "context of 4096")])
def test_a_request_that_cannot_be_sampled_is_refused(prompt_length: int, message: str):
    with pytest.raises(ConfigError, match=message):
        _sample(tiny_loaded().model, [Request(prompt_ids=(1,) * prompt_length, seed=0)])


@pytest.mark.parametrize("token_id", [-1, 259])
def test_a_prompt_of_tokens_that_the_model_has_not_is_refused(token_id: int):
    with pytest.raises(ConfigError, match=f"has token {token_id}, which the model has not; its tokens are 0 to 258"):
        _engine(tiny_loaded().model).submit(Request(prompt_ids=(1, token_id), seed=0))


@pytest.mark.parametrize(
    "params",
    [
        GREEDY,
        SamplingParams(),
        SamplingParams(top_p=0.9),
        SamplingParams(top_logprobs=2),
        SamplingParams(constraint=Constraint(kind="regex", source="[a-z]+")),
        SamplingParams(frequency_penalty=1),
        SamplingParams(allowed_tokens=frozenset({3, 4})),
    ],
)
@pytest.mark.parametrize("path", ["torch", "auto"])
def test_a_model_whose_logits_are_no_numbers_is_an_error_and_no_sample(path: str, params: SamplingParams):
    model = random_model("llama")
    with torch.no_grad():
        model.get_parameter("model.norm.weight")[0] = torch.nan
    with pytest.raises(InvariantError, match=r"token 0 of sample 0 .* logits are no finite numbers"):
        _sample(model, [Request(prompt_ids=(1, 2), seed=0, params=params)], path=path)


EXACT = [Request(prompt_ids=p, seed=i, num_samples=2, params=SamplingParams(max_new_tokens=12))
         for i, p in enumerate([*_prompts(5), tuple(range(100)), tuple(range(70)) + (7,) * 80])]  # fmt: skip


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_exact_gives_the_same_bits_alone_and_beside_others(architecture: str):
    model = random_model(architecture)
    together = _sample(model, EXACT, max_rows=32, exact=True)
    for index in (0, 5, 6):
        alone = _sample(model, [EXACT[index]], max_rows=1, exact=True, step_tokens=64)
        assert [alone[0, s] for s in range(2)] == [together[index, s] for s in range(2)]


@pytest.mark.slow
def test_exact_gives_the_same_bits_where_room_runs_out_and_where_a_prompt_was_seen_before():
    model = random_model("llama")
    request = EXACT[6]
    expected = _sample(model, [request], exact=True)[0, 0]
    engine = _engine(model, exact=True)
    _reply(engine, Request(prompt_ids=request.prompt_ids[:100], seed=3, params=GREEDY))
    assert _reply(engine, request) == expected
    assert engine.counts["prefix_tokens"] == 64
    long = SamplingParams(temperature=0, max_new_tokens=300)
    crowd = [Request(prompt_ids=(i,) * 30, seed=i, params=long) for i in range(10)]
    crowded = _engine(model, exact=True, kv_memory_mb=1)
    done = {(f.request, f.sample): f.completion for f in crowded.sample([*crowd, request])}
    assert crowded.counts["preempted"] > 0
    assert done[10, 0] == expected


def test_where_memory_runs_out_samples_wait_and_stay_what_they_are():
    model = random_model("gemma3")
    params = SamplingParams(temperature=0, max_new_tokens=120)
    requests = [Request(prompt_ids=p, seed=0, params=params) for p in _prompts(12)]
    engine = _engine(model, kv_memory_mb=1)
    tight = {f.request: f.completion.token_ids for f in engine.sample(requests)}
    assert engine.counts["preempted"] > 0
    roomy = _sample(model, requests)
    assert tight == {request: completion.token_ids for (request, _), completion in roomy.items()}


def test_a_request_that_memory_can_never_hold_is_refused():
    request = Request(prompt_ids=(1,) * 900, seed=0, params=SamplingParams(max_new_tokens=600))
    with pytest.raises(ConfigError, match="raise kv_memory_mb"):
        _sample(random_model("llama"), [request], kv_memory_mb=1)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_log_probabilities_of_a_prompt_are_those_of_a_plain_forward(architecture: str):
    model = random_model(architecture)
    prompt_ids = tuple(torch.randint(0, 256, (150,), generator=torch.Generator().manual_seed(3)).tolist())
    request = Request(prompt_ids=prompt_ids, seed=0, prompt_logprobs=True, params=SamplingParams(max_new_tokens=1))
    done = _sample(model, [EXACT[5], request], step_tokens=64)[1, 0]
    logprobs_T_V = plain_copy(model)(torch.tensor([prompt_ids])).logits[0].log_softmax(-1)
    expected = [logprobs_T_V[place, token_id].item() for place, token_id in enumerate(prompt_ids[1:])]
    assert done.prompt_logprobs == pytest.approx(expected, abs=1e-4)


def test_the_most_probable_tokens_are_reported_on_request():
    params = SamplingParams(top_logprobs=3, max_new_tokens=5, temperature=0)
    done = _sample(random_model("llama"), [Request(prompt_ids=(1, 2, 3), seed=0, params=params)])[0, 0]
    assert [top[0] for top in done.top_logprobs] == list(zip(done.token_ids, done.logprobs, strict=True))
    assert all(len(top) == 3 and top[0][1] >= top[1][1] >= top[2][1] for top in done.top_logprobs)


def test_the_next_turn_reuses_the_last_and_says_what_it_would_have_said():
    model = random_model("gemma3")
    engine = _engine(model)
    first = Request(prompt_ids=_prompts(1)[0] * 3, seed=0, params=GREEDY)
    said = _reply(engine, first)
    second = Request(prompt_ids=(*first.prompt_ids, *said.token_ids, 1, 2, 3), seed=0, params=GREEDY)
    reply = _reply(engine, second)
    assert engine.counts["prefix_tokens"] == len(first.prompt_ids) + len(said.token_ids) - 1
    assert reply.token_ids == _sample(model, [second])[0, 0].token_ids


def test_live_use_streams_each_token_and_takes_requests_between_steps():
    model = random_model("llama")
    requests = [Request(prompt_ids=p, seed=i, num_samples=2, params=GREEDY) for i, p in enumerate(_prompts(3))]
    engine = _engine(model)
    numbers = [engine.submit(requests[0])]
    events = [*engine.step(), *engine.step()]
    numbers += [engine.submit(request) for request in requests[1:]]
    while step := engine.step():
        events += step
    expected = _sample(model, requests)
    for (request, sample), completion in expected.items():
        mine = [e for e in events if e[:2] == (numbers[request], sample)]
        assert [e.token_id for e in mine[:-1] if isinstance(e, Sampled)] == list(completion.token_ids)
        assert isinstance(mine[-1], Finished)
        assert mine[-1].completion.token_ids == completion.token_ids


def test_a_full_queue_refuses_and_live_use_excludes_sampling_all():
    engine = _engine(tiny_loaded().model, max_rows=1, max_waiting=1)
    request = Request(prompt_ids=(1, 2), seed=0, params=SamplingParams(max_new_tokens=2))
    number = engine.submit(request)
    with pytest.raises(QueueFull, match="max_waiting is 1"):
        engine.submit(request)
    with pytest.raises(ConfigError, match="in live use"):
        next(engine.sample([request]))
    engine.cancel(number)
    assert engine.step() == []
    assert len(list(engine.sample([request]))) == 1


def test_live_use_while_all_are_sampled_is_refused_and_loses_nothing():
    engine = _engine(tiny_loaded().model)
    request = Request(prompt_ids=(1, 2), seed=0, num_samples=3, params=SamplingParams(max_new_tokens=2))
    samples = engine.sample([request])
    first = next(samples)
    for verb in (lambda: engine.submit(request), engine.step, lambda: engine.cancel(1)):
        with pytest.raises(ConfigError, match="while `sample` is under way"):
            verb()
    with pytest.raises(ConfigError, match="`sample` while `sample` is under way"):
        next(engine.sample([request]))
    assert len([first, *samples]) == 3
    engine.submit(request)


def test_sampling_that_is_given_up_leaves_nothing_behind():
    engine = _engine(tiny_loaded().model)
    requests = [Request(prompt_ids=(1, 2), seed=i, num_samples=2) for i in range(3)]
    samples = engine.sample(requests)
    next(samples)
    samples.close()
    assert engine.step() == []
    assert len(list(engine.sample(requests))) == 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"paht": "torch"}, "paht"),
        ({"path": "native"}, "needs the native step"),
        ({"path": "torch", "weights": "int8"}, "weights = 'int8' needs the native step"),
        ({"cache": "int8"}, "cache = 'int8' needs the native step"),
    ],
)
def test_an_option_that_cannot_be_honoured_is_an_error(options: dict[str, str], message: str):
    """The native step does not know Gemma."""
    with pytest.raises(ConfigError, match=message):
        open_engine(random_model("gemma3"), tiny_chat(), max_rows=1, version=lambda: 0, options=options)
