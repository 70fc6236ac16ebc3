"""What is frozen by name stays; a pattern that freezes nothing is told which names are near."""

import pytest

from burnish.core.errors import ConfigError
from burnish.models.lora import trainable
from burnish.models.parameters import freeze, hidden_matrices
from tests.fakes import random_model


def test_what_a_pattern_is_found_in_does_not_train() -> None:
    model = random_model("llama").requires_grad_(True)
    freeze(model, [r"layers\.[01]\.", "embed"])
    left = trainable(model)
    assert all("layers.2." in name or name in ("model.norm.weight", "lm_head.weight") for name in left)
    assert len(left) == 9 + 2


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        (["layers.0.self_atn.q_proj.weight"], r"near to it: .*model\.layers\.N\.self_attn\.q_proj\.weight"),
        (["vision"], r"there are: lm_head\.weight"),
        (["("], "no regular expression"),
        ([r"."], "nothing to train"),
    ],
)
def test_a_pattern_that_does_not_fit_is_an_error(patterns: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        freeze(random_model("llama").requires_grad_(True), patterns)


@pytest.mark.parametrize("architecture", ["llama", "qwen3"])
def test_embeddings_head_and_norms_are_no_hidden_matrices(architecture: str) -> None:
    names = hidden_matrices(random_model(architecture))
    assert len(names) == 3 * 7
    assert all(name.endswith("_proj.weight") for name in names)
