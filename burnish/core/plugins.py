"""Find a part by name: the file name is the name.

`load("domains", "code")` imports `burnish.domains.code`; a dotted name loads from outside the
package. A file, or a folder's `__init__.py`, is a plugin if it defines its kind's hook (`HOOKS`) at top level; others
are shared code. Names are found by reading files, not by importing them.
"""

import ast
import importlib
import re
from pathlib import Path
from types import ModuleType

from burnish.core.errors import ConfigError

HOOKS = {
    "domains": "load",
    "objectives": "loss",
    "preferences": "loss",
    "stages": "run",
    "engine": "open_engine",
    "backends": "open_backend",
    "priorities": "priority",
}
FOLDERS = {"backends": "sandbox/backends", "preferences": "objectives/preferences", "priorities": "rollout"}
"""Where a kind lies that has no folder of its own name."""


def names(kind: str) -> list[str]:
    """List the plugins that ship in a folder, sorted."""
    hook = re.compile(rf"^(async )?def {HOOKS[kind]}\b", re.MULTILINE)
    return sorted(name for name, path in _sources(kind) if hook.search(path.read_text(encoding="utf-8")))


def load(kind: str, name: str) -> ModuleType:
    """Import a plugin; an unknown name is a `ConfigError` that lists the known ones."""
    if "." in name:
        return _load_outside(kind, name)
    known = names(kind)
    if name not in known:
        raise ConfigError(f"no plugin {name!r} in {kind}; there are: {', '.join(known)}")
    return importlib.import_module(f"burnish.{FOLDERS.get(kind, kind).replace('/', '.')}.{name}")


def docstring(kind: str, name: str) -> str:
    """Read a plugin's module docstring, without importing one that ships here."""
    if "." in name or name not in names(kind):
        return load(kind, name).__doc__ or ""
    path = dict(_sources(kind))[name]
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def _sources(kind: str) -> list[tuple[str, Path]]:
    """The files and folders of a kind, each by its name, with the text that may define the hook."""
    folder = _folder(kind)
    files = [(path.stem, path) for path in folder.glob("*.py") if path.stem != "__init__"]
    return files + [(path.parent.name, path) for path in folder.glob("*/__init__.py")]


def _folder(kind: str) -> Path:
    return Path(__file__).parent.parent / FOLDERS.get(kind, kind)


def _load_outside(kind: str, name: str) -> ModuleType:
    missing = f"no module {name!r} for {kind}; is its package installed and on the path?"
    if not all(part.isidentifier() for part in name.split(".")):
        raise ConfigError(missing)
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and not (name == error.name or name.startswith(error.name + ".")):
            raise
        raise ConfigError(missing) from error
    if not hasattr(module, HOOKS[kind]):
        raise ConfigError(f"module {name!r} is no plugin for {kind}: it defines no function {HOOKS[kind]!r}")
    return module
