"""Which packages tasks are made of, and the files of one: pinned, checked, laid out in one way.

Decisions: every package ends as its modules at the top and its suite in `tests`, so that one command runs every suite;
`src` is left out of paths. Settings of test runners (pytest.ini, pyproject.toml, setup.cfg) are not taken: they ask for
plugins that are not there, and say nothing of the code. Neither are histories, caches, compiled files and metadata.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from pydantic import Field

from burnish.core.config import Strict, read_toml, validate
from burnish.core.errors import ConfigError

SHIPPED: Final = Path(__file__).with_name("catalogue.toml")
TESTS: Final = "tests"
LARGEST_DATA_BYTES: Final = 200_000
UNWANTED: Final = (".pyc", ".pyo", ".orig", ".so", ".pyd")


class Package(Strict):
    """One package of the catalogue."""

    name: str
    version: str
    file: str
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    licence: str
    modules: list[str] = Field(min_length=1)
    moves: dict[str, str] = Field(min_length=1)
    drops: list[str] = []
    is_held_out: bool = False

    @property
    def source(self) -> str:
        """What its tasks share."""
        return f"pypi:{self.name}=={self.version}"


class Catalogue(Strict):
    """The file."""

    packages: list[Package] = Field(min_length=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A package as tasks have it: everything by name, and which files are the suite's."""

    package: Package
    files: Mapping[str, bytes]

    @property
    def sources(self) -> Mapping[str, str]:
        """The package's own modules, as text."""
        return {
            name: content.decode()
            for name, content in self.files.items()
            if not _is_test(name) and name.endswith(".py")
        }

    @property
    def tests(self) -> Mapping[str, str]:
        """The Python files of the suite."""
        return {
            name: content.decode() for name, content in self.files.items() if _is_test(name) and name.endswith(".py")
        }

    @property
    def data(self) -> Mapping[str, str]:
        """The other files of the suite, those that are text."""
        found = {name: content for name, content in self.files.items() if _is_test(name) and not name.endswith(".py")}
        return {name: content.decode() for name, content in found.items() if _is_text(content)}


def read_catalogue(path: Path = SHIPPED, only: Sequence[str] = ()) -> list[Package]:
    """Read a catalogue; `only` keeps the packages of these names."""
    packages = validate(Catalogue, read_toml(path), str(path)).packages
    known = {package.name for package in packages}
    if unknown := [name for name in only if name not in known]:
        raise ConfigError(f"no package {unknown[0]!r} in {path}; there are: {', '.join(sorted(known))}")
    return [package for package in packages if not only or package.name in only]


def lay_out(package: Package, sdist: Mapping[str, bytes]) -> Tree:
    """Take of an sdist's files what the catalogue says, where it says."""
    moves = sorted(package.moves.items(), key=lambda move: -len(move[0]))
    files: dict[str, bytes] = {}
    for name, content in sdist.items():
        if _is_below(name, package.drops) or _is_unwanted(name, content):
            continue
        for old, new in moves:
            if _is_below(name, [old]):
                files[new + name.removeprefix(old)] = content
                break
    if odd := [name for name, content in files.items() if name.endswith(".py") and not _is_text(content)]:
        raise ConfigError(f"package {package.name!r}: {odd[0]!r} is not UTF-8; add it to the catalogue's drops")
    tree = Tree(package=package, files=files)
    if not tree.sources or not tree.tests:
        raise ConfigError(
            f"package {package.name!r}: the catalogue's moves find no code or no tests in {package.file!r}"
        )
    return tree


def _is_test(name: str) -> bool:
    return name.startswith(f"{TESTS}/")


def _is_below(name: str, folders: Sequence[str]) -> bool:
    return any(name == folder or name.startswith(f"{folder}/") for folder in folders)


def _is_unwanted(name: str, content: bytes) -> bool:
    path = PurePosixPath(name)
    return path.suffix in UNWANTED or "__pycache__" in path.parts or len(content) > LARGEST_DATA_BYTES


def _is_text(content: bytes) -> bool:
    try:
        return "\0" not in content.decode()
    except UnicodeDecodeError:
        return False
