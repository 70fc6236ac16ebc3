"""Heads that read hidden states as numbers: a value, a reward, classes of a token.

One linear layer in float32. A reward head starts at a spread of 1 / sqrt(width + 1)
(https://arxiv.org/abs/2009.01325, appendix B.1), so that its scores are of the order of 1; a value head starts at 0,
so that first advantages are the rewards themselves. `score.weight` and `score.bias` are the names that
transformers' sequence and token classifiers use. Not covered: several heads on one body.
"""

import math
from pathlib import Path
from typing import Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import PreTrainedModel

from burnish.core.errors import RunFolderError
from burnish.core.seeds import derive

Kind = Literal["value", "reward", "classes"]

_FILE = "head.safetensors"


class ScalarHead(nn.Module):
    """Hidden states `[N, width]` to numbers `[N, num_outputs]`."""

    def __init__(self, width: int, num_outputs: int = 1) -> None:
        super().__init__()
        self.score = nn.Linear(width, num_outputs, bias=True)

    def forward(self, hidden_N_D: Tensor) -> Tensor:
        """Apply the head, in float32."""
        return self.score(hidden_N_D.float())


@torch.no_grad()
def new_head(model: PreTrainedModel, kind: Kind, *, num_outputs: int = 1, seed: int = 0) -> ScalarHead:
    """A head that fits a model's body, as its kind starts."""
    width: int = model.config.get_text_config().hidden_size
    head = ScalarHead(width, num_outputs).to(model.device)
    head.score.bias.zero_()
    if kind == "value":
        head.score.weight.zero_()
    else:
        generator = torch.Generator().manual_seed(derive(seed, "head", kind))
        drawn_K_D = torch.randn(num_outputs, width, generator=generator) / math.sqrt(width + 1)
        head.score.weight.copy_(drawn_K_D)
    return head


def save_head(head: ScalarHead, folder: Path) -> None:
    """Write the head into an existing folder, for example beside an exported body."""
    save_file({name: value.detach().contiguous() for name, value in head.state_dict().items()}, folder / _FILE)


def load_head(folder: Path) -> ScalarHead:
    """Read what `save_head` wrote."""
    try:
        weights = load_file(folder / _FILE)
        num_outputs, width = weights["score.weight"].shape
    except (OSError, KeyError, SafetensorError) as error:
        raise RunFolderError(f"cannot read a head from {str(folder)!r}: {error}; expected {_FILE!r} in it") from error
    head = ScalarHead(width, num_outputs)
    head.load_state_dict(weights)
    return head
