"""Mutated objectives, and a program that shows which of them the kernel's checks notice.

The mutations are `mutations.txt`: of objectives, and of what puts them before a model (`learner/`, the fused head).
Run as a program it imports the package once for each n-th mutant (n is its argument), in this process, with one
snippet of one file replaced, and runs the checks against it: it prints one line of JSON a mutant, `null` or the name
of the first check that failed. A mutant that cannot be imported is an error of the list, not a kill.
"""

import importlib
import importlib.abc
import importlib.util
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGE = "burnish.objectives"
ELSEWHERE = ("learner/", "models/")
FORGOTTEN = (PACKAGE, "burnish.learner", "burnish.models.fused_head", "tests.objectives.kernel")
KERNELS = ("policy", "parts", "preference", "distribution", "update")
PARTS = {"aggregation", "correction", "kl", "gae", "overlong", "gkd"}
PREFERENCES = {"pairs", "bradley_terry"}
DISTRIBUTIONS = {"entropy", "models/fused_head"}


class Mutant(NamedTuple):
    file: str
    snippet: str
    replacement: str


def _read(text: str) -> Iterator[Mutant]:
    file, snippet = "", ""
    for line in text.splitlines():
        match line[:2]:
            case "# ":
                file = line[2:]
            case "- ":
                snippet = line[2:]
            case "+ " | "+":
                yield Mutant(file, snippet, line[2:])


MUTANTS = list(_read((Path(__file__).parent / "mutations.txt").read_text(encoding="utf-8")))


def module_of(file: str) -> str:
    """The module that a heading of the list names."""
    package = "burnish" if file.startswith(ELSEWHERE) else PACKAGE
    return f"{package}.{file.replace('/', '.')}"


def source_of(file: str) -> Path:
    return ROOT / f"{module_of(file).replace('.', '/')}.py"


def mutated(mutant: Mutant) -> str:
    """The file's source with the first occurrence of the snippet replaced."""
    source = source_of(mutant.file).read_text(encoding="utf-8")
    assert mutant.snippet in source, f"{mutant.file}: no {mutant.snippet!r} any more; bring the list up to date"
    return source.replace(mutant.snippet, mutant.replacement, 1)


class _Loader(importlib.abc.SourceLoader):
    def __init__(self, path: Path, source: str) -> None:
        self._path, self._source = path, source

    def get_filename(self, fullname: str) -> str:
        return str(self._path)

    def get_data(self, path: str) -> bytes:
        return self._source.encode()


class _Finder(importlib.abc.MetaPathFinder):
    """Serves one module from a string; all others are found as ever."""

    def __init__(self, mutant: Mutant) -> None:
        self._name = module_of(mutant.file)
        self._loader = _Loader(source_of(mutant.file), mutated(mutant))

    def find_spec(self, fullname, path, target=None):
        return importlib.util.spec_from_loader(fullname, self._loader) if fullname == self._name else None


@contextmanager
def instead(mutant: Mutant) -> Iterator[None]:
    """Import objectives, learner, head and kernel afresh within the block, with the mutant in place."""
    finder = _Finder(mutant)
    _forget()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        _forget()


def _forget() -> None:
    for name in [name for name in sys.modules if name.startswith(FORGOTTEN)]:
        del sys.modules[name]


def killer_of(mutant: Mutant) -> str | None:
    """The first check that fails on a mutant."""
    with instead(mutant):
        for module in map(importlib.import_module, _kernels(mutant.file)):
            for name, check in vars(module).items():
                if name.startswith("check_") and not _holds(check):
                    return name
    return None


def _kernels(file: str) -> list[str]:
    """All kernels, the one that is about the file first."""
    names = sorted(KERNELS, key=lambda name: name != _kernel(file))
    return [f"tests.objectives.kernel.{name}" for name in names]


def _kernel(file: str) -> str:
    if file in DISTRIBUTIONS:
        return "distribution"
    if file in PREFERENCES or file.startswith("preferences/"):
        return "preference"
    if file.startswith(ELSEWHERE):
        return "update"
    return "parts" if file in PARTS else "policy"


def _holds(check) -> bool:
    try:
        check()
    except (AssertionError, RuntimeError, ValueError, LookupError):  # what a wrong objective does to a check
        return False
    return True


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    for mutant in MUTANTS[:: int(sys.argv[1])]:
        print(json.dumps(killer_of(mutant)), flush=True)  # noqa: T201
