"""Sampling options that cannot be, or that would do nothing, are refused with a way out."""

import re
from pathlib import Path

import pytest

from burnish.core.errors import ConfigError
from burnish.engine.params import Constraint
from burnish.engine.types import Request, SamplingParams


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -1.0}, "temperature is -1.0, expected 0"),
        ({"temperature": 1e-9}, r"temperature is 1e-09, expected 0 \(greedy\)"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"temperature": 3.5e38}, r"temperature is 3.5e\+38, expected 0 \(greedy\), or 0.001 to 1e\+09"),
        ({"top_p": 0.0}, "top_p is 0.0, expected 1e-06 to 1"),
        ({"top_p": 1e-50}, "top_p is 1e-50, expected 1e-06 to 1"),
        ({"repetition_penalty": 1e39}, r"repetition_penalty is 1e\+39, expected 1 \(off\) to 1e\+09"),
        ({"presence_penalty": 1e39}, r"presence_penalty is 1e\+39, expected 0 \(off\) to 1e\+09"),
        ({"frequency_penalty": 1e39}, r"frequency_penalty is 1e\+39, expected 0 \(off\) to 1e\+09"),
        ({"logit_bias": ((3, 1e39),)}, r"logit_bias is .*, expected numbers from -1e\+09 to 1e\+09"),
        ({"top_k": -1}, "top_k is -1"),
        ({"min_p": 1.5}, "min_p is 1.5"),
        ({"max_new_tokens": 0}, "max_new_tokens is 0"),
        ({"stop": ("",)}, "not empty"),
        ({"stop": "###"}, r"stop is '###', expected a tuple of strings"),
        ({"top_logprobs": 21}, "top_logprobs is 21, expected 0 to 20"),
        ({"repetition_penalty": 0.9}, "repetition_penalty is 0.9, expected 1 .* positive logit_bias"),
        ({"presence_penalty": -0.5}, "presence_penalty is -0.5, expected 0 .* positive logit_bias"),
        ({"frequency_penalty": -0.5}, "frequency_penalty is -0.5"),
        ({"logit_bias": ((3, float("-inf")),)}, "list the others in allowed_tokens"),
        ({"logit_bias": ((3, 1.0), (3, 2.0))}, "one bias a token"),
        ({"allowed_tokens": frozenset()}, "an empty set', expected at least one token, or None"),
        ({"temperature": 0.0, "top_p": 0.9}, "top_p does nothing; leave top_p out, or set a temperature above 0"),
        ({"temperature": 0.0, "top_k": 5}, "top_k does nothing"),
        ({"temperature": 0.0, "min_p": 0.1}, "min_p does nothing"),
        ({"logit_bias": ((3, 1.0),), "allowed_tokens": frozenset({4})}, "token 3 does nothing outside allowed_tokens"),
    ],
)
def test_options_that_cannot_be_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        SamplingParams(**options)


def test_a_request_for_no_samples_is_refused():
    with pytest.raises(ConfigError, match="asks for 0 samples; num_samples is 1 or more"):
        Request(prompt_ids=(1,), seed=0, num_samples=0)


def test_all_faults_are_named_at_once():
    with pytest.raises(ConfigError, match=r"top_k is -1.*; min_p is -1"):
        SamplingParams(top_k=-1, min_p=-1)


def test_params_are_keys():
    constraint = Constraint(kind="regex", source="a+")
    params = [
        SamplingParams(logit_bias=((1, 2.0),), allowed_tokens=frozenset({1}), constraint=constraint) for _ in "ab"
    ]
    assert len(set(params)) == 1


@pytest.mark.parametrize(
    ("params", "is_shaped", "is_trainable"),
    [
        (SamplingParams(temperature=0.7, max_new_tokens=5, stop=("x",), top_logprobs=3), False, True),
        (SamplingParams(temperature=0), False, False),
        (SamplingParams(top_p=0.9), False, False),
        (SamplingParams(repetition_penalty=1.1), True, False),
        (SamplingParams(presence_penalty=1), True, False),
        (SamplingParams(frequency_penalty=1), True, False),
        (SamplingParams(logit_bias=((1, 1.0),)), True, False),
        (SamplingParams(allowed_tokens=frozenset({1})), True, False),
        (SamplingParams(constraint=Constraint(kind="regex", source="a")), True, False),
    ],
)
def test_only_temperature_alone_gives_samples_that_train(params, is_shaped, is_trainable):
    assert (params.is_shaped, params.is_trainable) == (is_shaped, is_trainable)


def test_the_page_on_sampling_names_every_option_and_its_code_runs():
    page = (Path(__file__).parents[2] / "docs" / "sampling.md").read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(block, {})
    named = set(re.findall(r"`(\w+)`", page))
    assert set(SamplingParams.__dataclass_fields__) - {"max_new_tokens", "stop"} <= named
