"""Several processes that make one update: what they tell each other, and tensors that they hold in shares.

Each rank brings its own rows. The global weight, the metrics and the number of packs are agreed on; gradients are
summed by `fully_shard` (`burnish.learner.sharding`).
"""

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor, distributed
from torch.distributed.tensor import DTensor, distribute_tensor


class Ranks(Protocol):
    """The processes of one update."""

    @property
    def writes(self) -> bool:
        """Whether this is the one that writes checkpoints."""
        ...

    def total(self, values: Mapping[str, float]) -> dict[str, float]:
        """Sum by name over the ranks, of which each may have other names."""
        ...

    def largest(self, value: int) -> int:
        """The largest of the ranks' values."""
        ...


class Alone:
    """One process."""

    writes = True

    def total(self, values: Mapping[str, float]) -> dict[str, float]:
        """See `Ranks`."""
        return dict(values)

    def largest(self, value: int) -> int:
        """See `Ranks`."""
        return value


class Group:
    """The ranks of torch's process group, which must be up."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    @property
    def writes(self) -> bool:
        """See `Ranks`."""
        return distributed.get_rank() == 0

    def total(self, values: Mapping[str, float]) -> dict[str, float]:
        """See `Ranks`; every rank adds in the order of ranks, so that all have the same bits."""
        gathered: list[Mapping[str, float]] = [{}] * distributed.get_world_size()
        distributed.all_gather_object(gathered, dict(values))
        names = sorted({name for one in gathered for name in one})
        return {name: sum(one.get(name, 0.0) for one in gathered) for name in names}

    def largest(self, value: int) -> int:
        """See `Ranks`."""
        shared = torch.tensor([value], device=self._device)
        distributed.all_reduce(shared, distributed.ReduceOp.MAX)
        return int(shared)


def whole(x: Tensor) -> Tensor:
    """The full tensor of which this rank may hold a share; all ranks must ask."""
    return x.full_tensor() if isinstance(x, DTensor) else x


def share_like(value: Tensor, x: Tensor) -> Tensor:
    """This rank's share of a full tensor, if `x` is held in shares and of its shape; else the tensor."""
    if not isinstance(x, DTensor) or value.shape != x.shape:
        return value
    return distribute_tensor(value.to(x.device), x.device_mesh, x.placements)


@torch.no_grad()
def fill(x: Tensor, value: Tensor) -> None:
    """Copy a full tensor, or this rank's share of it, into `x`."""
    x.copy_(value if isinstance(value, DTensor) else share_like(value, x))
