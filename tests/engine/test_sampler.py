"""One draw: the filters, the distribution, and the log-probability of what was drawn from."""

import math

import pytest
import torch

from burnish.engine.sampler import draw
from burnish.engine.types import SamplingParams

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
    drawn = draw(torch.tensor([PROBS]).log() + 3, SamplingParams(temperature=0, top_k=1), torch.tensor([0.99]))
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


def test_a_nucleus_wider_than_the_first_candidates_is_kept_whole():
    logits_B_V = torch.zeros(1, 5000)
    drawn = draw(logits_B_V.expand(5000, -1), SamplingParams(top_p=0.5), (torch.arange(5000) + 0.5) / 5000)
    assert len(drawn.token_ids_B.unique()) == pytest.approx(2500, abs=1)
    assert drawn.logprobs_B[0].exp().item() == pytest.approx(1 / 2500, rel=1e-3)
