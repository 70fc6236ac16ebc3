"""What stage `rl` chooses before its loop."""

import pytest

from burnish.core.config import validate
from burnish.core.errors import ConfigError
from burnish.learner.packing import Row
from burnish.learner.policy import Policy
from burnish.stages.rl_config import Config
from burnish.stages.rl_plan import _reference_top
from tests.fakes import random_model

OPTIONS = {"num_steps": 1, "kl_kind": "top_k", "kl_coefficient": 0.1}


def test_a_divergence_over_more_tokens_than_there_are_is_refused_before_anything_is_sampled() -> None:
    model = random_model("llama").requires_grad_(True)
    policy = Policy(model, dict(model.named_parameters()))
    with pytest.raises(ConfigError, match="kl_top_k is 260, and the model has 259 tokens; set it to at most"):
        _reference_top(policy, validate(Config, OPTIONS | {"kl_top_k": 260}, "rl"), policy.frozen())
    of_all = _reference_top(policy, validate(Config, OPTIONS | {"kl_top_k": 259}, "rl"), policy.frozen())
    assert of_all is not None
    (top,) = of_all([Row(token_ids=(1, 2, 3), was_sampled=(False, True, True))])
    assert top.ids_N_K.shape == (2, 259)
