"""Heads start as their kind says, and come back from their file."""

from pathlib import Path

import pytest
import torch

from burnish.core.errors import RunFolderError
from burnish.models.heads import load_head, new_head, save_head
from tests.fakes import random_model

HIDDEN_N_D = torch.randn(2000, 32, generator=torch.Generator().manual_seed(0))


def test_a_value_head_starts_at_zero_and_a_reward_head_at_a_spread_near_one() -> None:
    model = random_model("llama")
    assert not new_head(model, "value")(HIDDEN_N_D).any()
    scores = new_head(model, "reward", seed=1)(HIDDEN_N_D)
    assert 0.5 < scores.std() < 2
    assert torch.equal(scores, new_head(model, "reward", seed=1)(HIDDEN_N_D))
    assert not torch.equal(scores, new_head(model, "reward", seed=2)(HIDDEN_N_D))


def test_a_head_reads_bfloat16_in_float32() -> None:
    head = new_head(random_model("llama"), "classes", num_outputs=5)
    out = head(HIDDEN_N_D.bfloat16())
    assert out.shape == (2000, 5)
    assert out.dtype == torch.float32


def test_a_saved_head_comes_back(tmp_path: Path) -> None:
    head = new_head(random_model("llama"), "classes", num_outputs=3, seed=4)
    save_head(head, tmp_path)
    assert torch.equal(load_head(tmp_path)(HIDDEN_N_D), head(HIDDEN_N_D))


def test_a_folder_without_a_head_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"head\.safetensors"):
        load_head(tmp_path)
