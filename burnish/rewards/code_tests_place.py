"""What each process of a verdict does to itself: who may look at it, what it may write to, what it imports."""

import ctypes
import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Final

PR_SET_DUMPABLE: Final = 4
TREE: Final = os.getcwd()
"""The agent's files: where the job starts."""


def be_untraceable() -> None:
    """Close `/proc/PID` (memory, descriptors) to processes of the same user; children inherit it."""
    _set_dumpable(0)


def be_traceable() -> None:
    """Let a process look at itself again, as ordinary programs may."""
    _set_dumpable(1)


def _set_dumpable(value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, value, 0, 0, 0)


def silence(close: Iterable[int] = ()) -> None:
    """Point the three standard streams at nothing, and close what this process must not hold."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)
    os.close(null)
    for fd in close:
        os.close(fd)


class _OwnModules(importlib.abc.MetaPathFinder):
    """Finds the tested modules in the tree, whatever of that name is installed."""

    def __init__(self, roots: Sequence[str], names: Sequence[str]) -> None:
        self._roots, self._names = list(roots), frozenset(names)

    def find_spec(self, fullname: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        """Look in the tree for the tested top-level names, and for no other."""
        return importlib.machinery.PathFinder.find_spec(fullname, self._roots) if fullname in self._names else None


def use_tree(roots: Sequence[str], modules: Sequence[str]) -> None:
    """Let this process import the agent's files: the tested modules first, the rest behind what is installed."""
    folders = [os.path.join(TREE, root) if root else TREE for root in roots]
    for name in [one for one in sys.modules if one.partition(".")[0] in modules]:
        del sys.modules[name]
    sys.meta_path.insert(0, _OwnModules(folders, modules))
    sys.path.extend(folders)
    os.chdir(TREE)
