"""Start a Python with one module of `inside` and nothing else of Burnish, nor of site-packages."""

from pathlib import Path
from typing import Final

_PACKAGES: Final = Path(__file__).resolve().parents[1]

# The packages on the way are stood in for by empty ones, so that none of their own imports run.
_START: Final = """
import importlib, sys, types
for name, folder in (("burnish", {root!r}), ("burnish.sandbox", {root!r} + "/sandbox")):
    sys.modules[name] = package = types.ModuleType(name)
    package.__path__ = [folder]
importlib.import_module("burnish.sandbox.inside.{module}").main()
"""


def start(module: str) -> str:
    """Write the program for `python -c` that runs `main` of a module of `inside`."""
    return _START.format(root=str(_PACKAGES), module=module)
