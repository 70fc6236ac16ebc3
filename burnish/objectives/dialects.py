"""Dialects: one algorithm as different systems compute it, named `ALGORITHM@SYSTEM`.

Systems mean different numbers by one name: bounds, the divisor of the spread, the mean over tokens. A file of
an objective lists those forms as `DIALECTS: dict[str, Dialect]`, each a configuration of the same code with its
source; a recipe names one as `objective = "cispo@trl"`, and its own options come on top. Where a system computes
what no configuration here can express, there is no dialect: docs/objectives.md says how it differs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, Generic, NamedTuple, TypeVar

from burnish.core import plugins
from burnish.core.errors import ConfigError
from burnish.objectives.aggregation import Kind

C = TypeVar("C")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect(Generic[C]):
    """A named configuration; `aggregation` is given where it is not the file's own."""

    config: C
    source: str
    aggregation: Kind | None = None


class Choice(NamedTuple):
    """What a recipe's name of an objective stands for."""

    module: ModuleType
    config: Any
    aggregation: Kind


def choose(kind: str, name: str) -> Choice:
    """Find `name` or `name@dialect` among the plugins of a kind, with its defaults."""
    plain, at, dialect_name = name.partition("@")
    module = plugins.load(kind, plain)
    if not at:
        return Choice(module, module.Config(), module.AGGREGATION)
    known: dict[str, Dialect[Any]] = getattr(module, "DIALECTS", {})  # an optional name
    if dialect_name not in known:
        listed = ", ".join(f"{plain}@{other}" for other in known) or "none"
        raise ConfigError(f"{plain!r} has no dialect {dialect_name!r}; there are: {listed}")
    dialect = known[dialect_name]
    return Choice(module, dialect.config, dialect.aggregation or module.AGGREGATION)


def with_options(choice: Choice, options: Mapping[str, Any]) -> Choice:
    """Put a recipe's own options on top; `ConfigError` for a number out of its range, and for what nothing reads."""
    try:
        config = replace(choice.config, **options)
    except ValueError as error:
        raise ConfigError(f"{_name(choice)}: {error}") from None
    needs: Mapping[str, Sequence[str]] = getattr(choice.module, "NEEDS_OPTION", {})  # an optional name
    for option in options.keys() & needs.keys():
        switches = needs[option]
        if not any(getattr(config, switch) for switch in switches):
            off = f"{' and '.join(switches)} {'are' if switches[1:] else 'is'} false"
            raise ConfigError(f"{_name(choice)}: nothing reads {option} while {off}; leave {option} out")
    return choice._replace(config=config)


def _name(choice: Choice) -> str:
    return choice.module.__name__.rpartition(".")[2]
