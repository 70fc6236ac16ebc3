"""Sees every tensor that is made within a block, and remembers the size of the largest."""

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Largest(TorchDispatchMode):
    """`numel` is the largest number of elements of any result; views count as what they show."""

    def __init__(self) -> None:
        super().__init__()
        self.numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.numel = max([self.numel, *(x.numel() for x in tree_leaves(result) if isinstance(x, Tensor))])
        return result
