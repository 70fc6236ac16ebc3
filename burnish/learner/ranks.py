"""Several processes that make one update: what they tell each other, and tensors that they hold in shares.

Each rank brings its own rows. The global weight, the metrics and the number of packs are agreed on; gradients are
summed by `fully_shard` (`burnish.learner.sharding`).
"""

from collections.abc import Sequence
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

    def total(self, values: Sequence[float]) -> list[float]:
        """Sum each value over the ranks."""
        ...

    def largest(self, value: int) -> int:
        """The largest of the ranks' values."""
        ...


class Alone:
    """One process."""

    writes = True

    def total(self, values: Sequence[float]) -> list[float]:
        """See `Ranks`."""
        return list(values)

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

    def total(self, values: Sequence[float]) -> list[float]:
        """See `Ranks`."""
        return self._reduce(torch.tensor(values, dtype=torch.float64), distributed.ReduceOp.SUM)

    def largest(self, value: int) -> int:
        """See `Ranks`."""
        return round(self._reduce(torch.tensor([value], dtype=torch.float64), distributed.ReduceOp.MAX)[0])

    def _reduce(self, values: Tensor, how: distributed.ReduceOp.RedOpType) -> list[float]:
        shared = values.to(self._device)
        distributed.all_reduce(shared, how)
        return shared.tolist()


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
