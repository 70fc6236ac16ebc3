"""What shapes logits: equal to the definitions, to transformers' processors, and to the counts of many draws."""

import sys
from collections import Counter

import pytest
import torch
from transformers import RepetitionPenaltyLogitsProcessor, SequenceBiasLogitsProcessor

from burnish.core.errors import ConfigError
from burnish.engine.params import Constraint
from burnish.engine.sampler import draw
from burnish.engine.shaping import DeadEnd, Vocabulary, open_shaper
from burnish.engine.types import SamplingParams
from burnish.rollout.collect import Collector
from tests.engine.chi_square import agrees
from tests.fakes import tiny_chat

SIZE = 259


def vocabulary(size=SIZE):
    return Vocabulary(tiny_chat(), size)


def shaped(params, prompt_ids, sampled, logits_V):
    """The logits of a row that has sampled these tokens."""
    shaper = open_shaper(params, prompt_ids, vocabulary(len(logits_V)))
    for token_id in sampled:
        shaper.accept(token_id)
    result_V = logits_V.clone()
    shaper.shape(result_V)
    return result_V


def some_logits(size=20, seed=0):
    return torch.randn(size, generator=torch.Generator().manual_seed(seed)) * 3


def test_a_row_that_is_not_shaped_has_no_shaper():
    assert open_shaper(SamplingParams(temperature=0.5, top_p=0.9, top_k=3), (1, 2), vocabulary()) is None


def test_repetition_penalty_is_that_of_transformers_over_prompt_and_sample():
    logits_V, prompt_ids, sampled = some_logits(), (1, 2, 3, 3), [4, 2, 7]
    theirs = RepetitionPenaltyLogitsProcessor(1.3)(torch.tensor([[*prompt_ids, *sampled]]), logits_V[None].clone())[0]
    torch.testing.assert_close(shaped(SamplingParams(repetition_penalty=1.3), prompt_ids, sampled, logits_V), theirs)


def test_logit_bias_is_that_of_transformers():
    logits_V, bias = some_logits(), {3: 2.0, 9: -4.5}
    theirs = SequenceBiasLogitsProcessor({(i,): b for i, b in bias.items()})(torch.tensor([[1]]), logits_V[None])[0]
    torch.testing.assert_close(shaped(SamplingParams(logit_bias=tuple(bias.items())), (1,), [], logits_V), theirs)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"presence_penalty": 0.5},
            [1.0, 1.5, 2.5, -1.0],
        ),  # tokens 1 and 2 were sampled; the prompt's 0 does not count
        ({"frequency_penalty": 0.5}, [1.0, 1.0, 2.5, -1.0]),  # token 1 twice
        ({"presence_penalty": 0.25, "frequency_penalty": 0.5}, [1.0, 0.75, 2.25, -1.0]),
        # First divide or multiply (the prompt's 0 and 3 too), then take off.
        ({"repetition_penalty": 2.0, "frequency_penalty": 0.5}, [0.5, 0.0, 1.0, -2.0]),
    ],
)
def test_penalties_by_hand(options, expected):
    logits_V = torch.tensor([1.0, 2.0, 3.0, -1.0])
    result_V = shaped(SamplingParams(**options), (0, 0, 3), [1, 2, 1], logits_V)
    torch.testing.assert_close(result_V, torch.tensor(expected))


def test_only_allowed_tokens_keep_their_logits():
    logits_V = some_logits()
    result_V = shaped(SamplingParams(allowed_tokens=frozenset({2, 5}), logit_bias=((5, 1.0),)), (1,), [], logits_V)
    assert result_V.isfinite().nonzero().flatten().tolist() == [2, 5]
    torch.testing.assert_close(result_V[[2, 5]], logits_V[[2, 5]] + torch.tensor([0.0, 1.0]))


def test_two_rows_do_not_share_what_they_said():
    params, tokens = SamplingParams(presence_penalty=1), vocabulary()
    one, other = open_shaper(params, (1,), tokens), open_shaper(params, (1,), tokens)
    one.accept(5)
    logits_V = torch.zeros(SIZE)
    other.shape(logits_V)
    assert logits_V.abs().max() == 0


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(repetition_penalty=1.5),
        SamplingParams(presence_penalty=0.7, frequency_penalty=0.3),
        SamplingParams(logit_bias=((0, 1.0), (3, -0.5)), temperature=0.8),
        SamplingParams(allowed_tokens=frozenset({0, 2, 4, 5}), repetition_penalty=1.2),
    ],
)
def test_samples_of_two_tokens_agree_with_the_exact_probabilities(params):
    """Pairs: the second token's distribution depends on the first."""
    num_draws, generator = 20_000, torch.Generator().manual_seed(5)
    logits_V, uniforms_B_2 = some_logits(6, seed=2) / 5, torch.rand(num_draws, 2, generator=generator)
    first_V = shaped(params, (1, 4), [], logits_V)
    firsts = draw(first_V.expand(num_draws, -1), params, uniforms_B_2[:, 0]).token_ids_B
    counts, exact = Counter(), {}
    for first in firsts.unique().tolist():
        second_V = shaped(params, (1, 4), [first], logits_V)
        chosen = uniforms_B_2[firsts == first, 1]
        seconds = draw(second_V.expand(len(chosen), -1), params, chosen).token_ids_B
        counts.update((first, second) for second in seconds.tolist())
    for first in range(6):
        p_first = _exact(params, logits_V, (1, 4), [])[first]
        second_V = _exact(params, logits_V, (1, 4), [first])
        exact |= {(first, second): p_first * second_V[second] for second in range(6)}
    assert agrees(counts, exact)


def _exact(p, logits_V, prompt_ids, sampled):
    """The distribution by the definitions, a token at a time."""
    weights = []
    for token_id, x in enumerate(logits_V.double().tolist()):
        if token_id in (*prompt_ids, *sampled):
            x = x / p.repetition_penalty if x > 0 else x * p.repetition_penalty
        count = sampled.count(token_id)
        x -= count * p.frequency_penalty + (count > 0) * p.presence_penalty
        x += dict(p.logit_bias).get(token_id, 0.0)
        is_allowed = p.allowed_tokens is None or token_id in p.allowed_tokens
        weights.append(2.718281828459045 ** (x / p.temperature) if is_allowed else 0.0)
    return [weight / sum(weights) for weight in weights]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (SamplingParams(logit_bias=((SIZE, 1.0),)), "logit_bias names token 259, which .* its tokens are 0 to 258"),
        (SamplingParams(allowed_tokens=frozenset({-1, 4})), "allowed_tokens names token -1"),
        (SamplingParams(allowed_tokens=frozenset({4}), constraint=Constraint(kind="regex", source="a")), "add 258"),
    ],
)
def test_tokens_that_do_not_fit_the_model_are_refused(params, message):
    with pytest.raises(ConfigError, match=message):
        open_shaper(params, (1,), vocabulary())


def test_a_row_without_any_token_left_says_so():
    shaper = open_shaper(SamplingParams(allowed_tokens=frozenset({1, 2})), (1,), vocabulary(4))
    shaper.accept(1)
    with pytest.raises(DeadEnd, match="after 1 tokens, no token is both allowed"):
        shaper.shape(torch.tensor([0.0, -torch.inf, -torch.inf, 0.0]))


def test_rollouts_of_shaped_samples_are_refused():
    shared = {"means": None, "ledger": None, "mixture": None, "stage": 0, "seed": 0, "group_size": 2}
    Collector(**shared, params=SamplingParams(temperature=0.7))
    with pytest.raises(ConfigError, match=r"presence_penalty=1.* cannot train"):
        Collector(**shared, params=SamplingParams(presence_penalty=1))


def test_a_constraint_without_its_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "llguidance", None)
    monkeypatch.delitem(sys.modules, "burnish.engine.constraints", raising=False)
    with pytest.raises(ConfigError, match=r"needs the package llguidance: `pip install burnish\[constrain\]`"):
        open_shaper(SamplingParams(constraint=Constraint(kind="regex", source="a")), (1,), vocabulary())
