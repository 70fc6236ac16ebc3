"""What a verdict depends on besides the task and the answer: the verifier's text, and where it runs.

Decisions: rather too much than too little, since an edit that is missed would serve old verdicts. The version of a
verifier covers every file that its module imports, directly or not, by a name in full or a relative one or as a string
(`import_module("pack.part")`), and the packages around it, unless it is installed or the interpreter's own; every file
beside one of these that it names in a string, or whose name begins with the module's (`code` takes `code_worker.py`);
and the installed version of every package that one of them imports or names in a string.
The environment covers the interpreter, all installed packages, and every file of the sandbox.
Covered: modules with a source file. A module without one (typed into a prompt) has no version and is never cached.
Not covered: data files that a verifier reads and does not put into its tasks; programs outside Python; names of modules
that are put together while it runs.
"""

import ast
import hashlib
import importlib.metadata
import platform
import re
import sys
import sysconfig
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import NamedTuple

LONGEST_WORD = 80
INSTALLED = ("stdlib", "platstdlib", "purelib", "platlib")
DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.\w+)+")

SANDBOX = "burnish.sandbox"


class _File(NamedTuple):
    digest: str
    imports: list[str]
    words: list[str]


@lru_cache(maxsize=64)
def verifier_version(module: str) -> str | None:
    """The version of the verifier in a module; None where its source cannot be read."""
    files = _gather(module)
    if module not in files:
        return None
    words = {word.partition(".")[0] for file in files.values() for word in (*file.words, *file.imports)}
    lines = [f"{name} {files[name].digest}" for name in sorted(files)]
    lines += [f"{word} {_packages()[word]}" for word in sorted(words & _packages().keys())]
    return _sha256("\n".join(lines).encode())


@lru_cache(maxsize=1)
def environment_version() -> str:
    """This interpreter, this kind of machine, what is installed, and the sandbox."""
    spec = find_spec(SANDBOX)
    assert spec is not None and spec.origin is not None
    sandbox = [_sha256(path.read_bytes()) for path in sorted(Path(spec.origin).parent.rglob("*.py"))]
    packages = sorted(f"{name} {version}" for name, version in _packages().items())
    return _sha256("\n".join([sys.version, platform.machine(), platform.system(), *packages, *sandbox]).encode())


def _gather(module: str) -> dict[str, _File]:
    """The files of a module, and of what it imports that is neither installed nor the interpreter's own."""
    roots = {module.partition(".")[0], __name__.partition(".")[0]}
    files: dict[str, _File] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        top = name.partition(".")[0]
        path = _path(name) if name not in files and (top in roots or _may_change(top)) else None
        if path is None:
            continue
        files[name] = _read(name, path)
        waiting += files[name].imports
        words = [word for word in files[name].words if DOTTED.fullmatch(word)]
        waiting += [word for word in words if word.partition(".")[0] in roots]  # another one would be run to be found
        waiting += [f"{name.rpartition('.')[0]}.{beside}" for beside in _beside(path, files[name].words)]
    return files | _around(files)


def _around(files: dict[str, _File]) -> dict[str, _File]:
    """The packages around modules, themselves and not what they import: that is loaded with them, and not called."""
    names = {
        str(parent).replace("/", ".") for name in files for parent in PurePosixPath(name.replace(".", "/")).parents
    }
    paths = {name: _path(name) for name in names - files.keys() - {"."}}
    return {name: _read(name, path) for name, path in paths.items() if path is not None}


@lru_cache(maxsize=1024)
def _may_change(top: str) -> bool:
    """Whether a top-level module is a file in somebody's hands: an installed one has a version instead."""
    path = None if top in sys.stdlib_module_names else _path(top)
    return path is not None and not any(path.is_relative_to(sysconfig.get_path(name)) for name in INSTALLED)


def _path(module: str) -> Path | None:
    try:
        spec = find_spec(module) if module else None
    except Exception:  # noqa: BLE001 - the packages around it are run to find it
        return None
    return Path(spec.origin) if spec is not None and spec.origin and spec.origin.endswith(".py") else None


def _beside(path: Path, words: list[str]) -> list[str]:
    """The modules in the same folder that a file names, or that begin with its name."""
    if path.name == "__init__.py":
        return []
    named = [path.with_name(word) for word in words if re.fullmatch(r"\w+\.py", word)]
    return [one.stem for one in {*path.parent.glob(f"{path.stem}_*.py"), *named} if one.exists()]


def _read(module: str, path: Path) -> _File:
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    source = path.read_bytes()
    imports: list[str] = []
    words: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imports += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            around = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            whole = ".".join([*around, *([node.module] if node.module else [])])
            imports += [whole, *(f"{whole}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < LONGEST_WORD:
            words.append(node.value)
    return _File(_sha256(source), imports, words)


@lru_cache(maxsize=1)
def _packages() -> dict[str, str]:
    """Top-level module names and the versions of the distributions that bring them."""
    return {
        module: " ".join(sorted(importlib.metadata.version(name) for name in set(names)))
        for module, names in importlib.metadata.packages_distributions().items()
    }


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
