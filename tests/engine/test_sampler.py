"""One draw: the filters, the distribution, and the log-probability of what was drawn from."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from transformers import MinPLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from burnish.engine.sampler import draw, top
from burnish.engine.types import SamplingParams
from tests.engine.chi_square import agrees

PROBS = (0.1, 0.4, 0.05, 0.25, 0.2)  # in falling order: tokens 1, 3, 4, 0, 2


def _frequencies(params: SamplingParams, num_draws: int = 20_000) -> tuple[torch.Tensor, torch.Tensor]:
    """How often each token is drawn over an even grid of numbers, and the probability it is said to have."""
    uniforms_B = (torch.arange(num_draws) + 0.5) / num_draws
    drawn = draw(torch.tensor(PROBS).log().expand(num_draws, -1), params, uniforms_B)
    said_V = torch.zeros(len(PROBS))
    said_V[drawn.token_ids_B] = drawn.logprobs_B.exp()
    return torch.bincount(drawn.token_ids_B, minlength=len(PROBS)) / num_draws, said_V


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (SamplingParams(), PROBS),
        (SamplingParams(temperature=0.5), [p**2 / 0.265 for p in PROBS]),
        (SamplingParams(top_k=2), (0, 0.4 / 0.65, 0, 0.25 / 0.65, 0)),
        (SamplingParams(top_k=99), PROBS),
        (SamplingParams(top_p=0.5), (0, 0.4 / 0.65, 0, 0.25 / 0.65, 0)),  # 0.4 alone is less than 0.5
        (SamplingParams(top_p=0.01), (0, 1, 0, 0, 0)),
        (SamplingParams(min_p=0.3), (0, 0.4 / 0.85, 0, 0.25 / 0.85, 0.2 / 0.85)),  # at least 0.12
        (SamplingParams(top_k=3, top_p=0.7), (0, 0.4 / 0.65, 0, 0.25 / 0.65, 0)),  # 0.65 / 0.85 of the rest: enough
        (SamplingParams(top_k=4, min_p=0.55), (0, 0.4 / 0.65, 0, 0.25 / 0.65, 0)),
        (SamplingParams(temperature=2.0, top_p=0.6), (0, 0.6325, 0, 0.5, 0.4472)),
    ],
)
def test_tokens_are_drawn_as_often_as_the_filtered_distribution_says(params: SamplingParams, expected):
    expected_V = torch.tensor(expected) / sum(expected)
    drawn_V, said_V = _frequencies(params)
    torch.testing.assert_close(drawn_V, expected_V, atol=2e-4, rtol=1e-3)
    torch.testing.assert_close(said_V, expected_V, atol=1e-5, rtol=2e-4)


def test_greedy_takes_the_most_probable_and_says_its_unscaled_probability():
    drawn = draw(torch.tensor([PROBS]).log() + 3, SamplingParams(temperature=0), torch.tensor([0.99]))
    assert drawn.token_ids_B.tolist() == [1]
    assert drawn.logprobs_B.item() == pytest.approx(math.log(0.4), abs=1e-6)


@pytest.mark.parametrize("uniform", [0.0, 1 - 2**-24])
def test_a_token_of_no_probability_is_never_drawn_at_the_ends(uniform: float):
    """Among 500 rows are sums that round above and below 1."""
    logits_B_V = torch.randn(500, 60, generator=torch.Generator().manual_seed(0))
    logits_B_V[:, :20] = logits_B_V[:, 40:] = -torch.inf
    drawn = draw(logits_B_V, SamplingParams(), torch.full((500,), uniform))
    assert drawn.logprobs_B.isfinite().all()
    assert drawn.token_ids_B.unique().tolist() == ([20] if uniform == 0 else [39])


def test_a_row_draws_the_same_whatever_is_beside_it():
    logits_B_V = torch.randn(16, 1000, generator=torch.Generator().manual_seed(1))
    uniforms_B = torch.rand(16, generator=torch.Generator().manual_seed(2))
    params = SamplingParams(temperature=0.8, top_p=0.9)
    together = draw(logits_B_V, params, uniforms_B)
    alone = [draw(logits_B_V[i : i + 1], params, uniforms_B[i : i + 1]) for i in range(16)]
    assert together.token_ids_B.tolist() == [one.token_ids_B.item() for one in alone]
    assert together.logprobs_B.tolist() == [one.logprobs_B.item() for one in alone]


def test_equal_probabilities_beside_a_row_that_needs_all_candidates_are_drawn_as_alone():
    """As logits of a model in bfloat16 are: many are equal."""
    generator, params = torch.Generator().manual_seed(0), SamplingParams(top_p=0.5)
    logits_1_V = torch.randn(1, 3000, generator=generator).mul(2).round()
    uniforms_B = torch.rand(64, generator=generator)
    alone = draw(logits_1_V.expand(64, -1), params, uniforms_B)
    beside = draw(
        torch.cat([logits_1_V.expand(64, -1), torch.zeros(1, 3000)]), params, torch.cat([uniforms_B, uniforms_B[:1]])
    )
    assert beside.token_ids_B[:64].tolist() == alone.token_ids_B.tolist()
    assert beside.logprobs_B[:64].tolist() == alone.logprobs_B.tolist()


@pytest.mark.parametrize(
    "params", [SamplingParams(temperature=0), SamplingParams(), SamplingParams(top_p=0.9), SamplingParams(top_k=5)]
)
def test_logits_that_are_no_numbers_give_a_log_probability_that_is_none(params: SamplingParams):
    logits_B_V = torch.zeros(2, 50)
    logits_B_V[0, 3] = torch.nan
    drawn = draw(logits_B_V, params, torch.tensor([0.5, 0.5]))
    assert drawn.logprobs_B.isnan().tolist() == [True, False]


def test_a_nucleus_wider_than_the_first_candidates_is_kept_whole():
    logits_B_V = torch.zeros(1, 5000)
    drawn = draw(logits_B_V.expand(5000, -1), SamplingParams(top_p=0.5), (torch.arange(5000) + 0.5) / 5000)
    assert len(drawn.token_ids_B.unique()) == pytest.approx(2500, abs=1)
    assert drawn.logprobs_B[0].exp().item() == pytest.approx(1 / 2500, rel=1e-3)


def _by_definition(logits_V: np.ndarray, params: SamplingParams) -> np.ndarray:
    """The filtered distribution in float64, token by token."""
    if params.temperature == 0:
        return np.eye(len(logits_V))[logits_V.argmax()]
    weights_V = np.exp(logits_V / params.temperature)
    order = list(np.argsort(-weights_V))
    if params.top_k:
        order = order[: params.top_k]
    total, mass, nucleus = weights_V[order].sum(), 0.0, []
    for token_id in order:
        if params.top_p < 1 and mass >= params.top_p * total:
            break
        nucleus.append(token_id)
        mass += weights_V[token_id]
    kept = [token_id for token_id in nucleus if weights_V[token_id] >= params.min_p * weights_V[order[0]]]
    probs_V = np.zeros_like(weights_V)
    probs_V[kept] = weights_V[kept]
    return probs_V / probs_V.sum()


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=0),
        SamplingParams(),
        SamplingParams(temperature=0.6),
        SamplingParams(temperature=1.7),
        SamplingParams(top_k=5),
        SamplingParams(top_p=0.8),
        SamplingParams(min_p=0.15),
        SamplingParams(temperature=1.4, top_k=9, top_p=0.9, min_p=0.1),
    ],
)
def test_samples_agree_with_the_exact_probabilities(params: SamplingParams):
    generator = torch.Generator().manual_seed(11)
    logits_V = torch.randn(14, generator=generator, dtype=torch.float64)
    uniforms_B = torch.rand(20_000, generator=generator)
    drawn = draw(logits_V.float().expand(20_000, -1), params, uniforms_B)
    exact_V = _by_definition(logits_V.numpy(), params)
    assert agrees(Counter(drawn.token_ids_B.tolist()), dict(enumerate(exact_V)))
    exact_logprobs_B = torch.from_numpy(exact_V)[drawn.token_ids_B].log().float()
    reported_B = drawn.logprobs_B if params.temperature else torch.zeros(20_000)  # greedy reports the unscaled softmax
    torch.testing.assert_close(reported_B, exact_logprobs_B, atol=1e-5, rtol=1e-5)


def test_samples_of_other_probabilities_do_not_agree():
    uniforms_B = torch.rand(20_000, generator=torch.Generator().manual_seed(1))
    drawn = draw(torch.tensor([PROBS]).log().expand(20_000, -1), SamplingParams(temperature=1.05), uniforms_B)
    assert not agrees(Counter(drawn.token_ids_B.tolist()), dict(enumerate(PROBS)))


@pytest.mark.parametrize(
    ("params", "warper"),
    [
        (SamplingParams(top_k=7, top_logprobs=20), TopKLogitsWarper(7)),
        (SamplingParams(top_p=0.7, top_logprobs=20), TopPLogitsWarper(0.7)),
        (SamplingParams(min_p=0.2, top_logprobs=20), MinPLogitsWarper(0.2)),
    ],
)
def test_filters_keep_what_those_of_transformers_keep(params: SamplingParams, warper):
    logits_B_V = torch.randn(8, 20, generator=torch.Generator().manual_seed(3))
    theirs_B_V = warper(torch.zeros(8, 1, dtype=torch.long), logits_B_V.clone()).log_softmax(-1)
    ours_B_V = torch.full_like(theirs_B_V, -torch.inf)
    found = top(logits_B_V, params)
    ours_B_V.scatter_(-1, found.token_ids_B_N, found.logprobs_B_N)
    torch.testing.assert_close(ours_B_V, theirs_B_V)


@pytest.mark.parametrize("params", [SamplingParams(top_logprobs=2), SamplingParams(top_logprobs=2, temperature=0)])
def test_top_names_the_most_probable_tokens_with_their_log_probabilities(params: SamplingParams):
    found = top(torch.tensor([PROBS]).log() + 2, params)
    assert found.token_ids_B_N.tolist() == [[1, 3]]
    torch.testing.assert_close(found.logprobs_B_N, torch.tensor([[0.4, 0.25]]).log())


def test_top_agrees_with_what_was_drawn():
    params = SamplingParams(temperature=0.7, top_p=0.9, top_logprobs=5)
    logits_B_V = torch.tensor([PROBS]).log().expand(5, -1)
    drawn, found = draw(logits_B_V, params, torch.arange(5) / 5), top(logits_B_V, params)
    for row in range(5):
        said = dict(zip(found.token_ids_B_N[row].tolist(), found.logprobs_B_N[row].tolist(), strict=True))
        assert said[drawn.token_ids_B[row].item()] == pytest.approx(drawn.logprobs_B[row].item(), abs=1e-6)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_more_of_the_most_probable_tokens_than_there_are_is_all_of_them(temperature):
    logits_B_V = torch.tensor([[0.0, 1.0, 2.0]])
    found = top(logits_B_V, SamplingParams(temperature=temperature, top_logprobs=5))
    assert found.token_ids_B_N.tolist() == [[2, 1, 0]]
