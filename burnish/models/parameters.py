"""Which parameters train: frozen parts by pattern, and the matrices that an optimiser for matrices may have."""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from torch import Tensor, nn
from transformers import PreTrainedModel

from burnish.core.errors import ConfigError

_IS_NEAR = 0.75


def freeze(model: nn.Module, patterns: Sequence[str]) -> None:
    """Let no parameter train that one of the regular expressions is found in.

    A pattern without a match is an error, as is it if nothing is left that trains.
    """
    names = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    for pattern in patterns:
        matched = [name for name in names if _search(pattern, name)]
        if not matched:
            raise ConfigError(f"freeze: {pattern!r} matches no parameter that trains; {_near(pattern, names)}")
        for name in matched:
            model.get_parameter(name).requires_grad_(False)
    if patterns and not any(parameter.requires_grad for parameter in model.parameters()):
        raise ConfigError(f"freeze: {', '.join(map(repr, patterns))} leave nothing to train; freeze less")


def hidden_matrices(model: PreTrainedModel) -> frozenset[str]:
    """Names of two-dimensional parameters, less embeddings and head."""
    outer = {id(p) for end in (model.get_input_embeddings(), model.get_output_embeddings()) if end is not None
             for p in end.parameters()}  # fmt: skip
    return frozenset(name for name, p in model.named_parameters() if p.ndim == 2 and id(p) not in outer)


def named_tensors(model: nn.Module) -> dict[str, Tensor]:
    """All that two copies of a model must have alike: parameters and buffers, each once."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def num_changes(model: nn.Module) -> int:
    """How many in-place changes torch has counted on the parameters; fused optimisers' are not among them."""
    return sum(parameter._version for parameter in model.parameters())  # pyright: ignore[reportPrivateUsage]  # torch has no other name for it


def _search(pattern: str, name: str) -> bool:
    try:
        return re.search(pattern, name) is not None
    except re.error as error:
        raise ConfigError(f"freeze: {pattern!r} is no regular expression: {error}") from None


def _near(pattern: str, names: Sequence[str]) -> str:
    """Say which names are like it, or which kinds there are; the layer number stands as N."""
    kinds = sorted({re.sub(r"\.\d+\.", ".N.", name) for name in names})
    asked = re.sub(r"\.\d+\.", ".N.", pattern.replace("\\", ""))
    likeness = {kind: _likeness(asked, kind) for kind in kinds}
    near = sorted((kind for kind in kinds if likeness[kind] >= _IS_NEAR), key=lambda kind: -likeness[kind])[:3]
    return f"near to it: {', '.join(near)}" if near else f"there are: {', '.join(kinds)}"


def _likeness(asked: str, name: str) -> float:
    """How alike they are, from 0 to 1: to the whole name, or to a word of it."""
    return max(SequenceMatcher(None, asked, part).ratio() for part in (name, *re.split(r"[._]", name)))
