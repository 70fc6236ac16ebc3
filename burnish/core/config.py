"""Read what users write: strict models, TOML, overrides, and messages that say where.

Every model forbids unknown keys. `validate` turns pydantic's report into one line a fault.
"""

import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from burnish.core.errors import ConfigError

MOST_SHOWN = 200


class Strict(BaseModel):
    """A model of outside data: frozen, no unknown keys, no `true` or "2" for a number, no infinite number."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


M = TypeVar("M", bound=BaseModel)


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; `ConfigError` if it is missing or malformed."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"no file {str(path)!r}; give the path of a TOML file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {str(path)!r}: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None


def override(data: dict[str, Any], assignments: list[str]) -> dict[str, Any]:
    """Apply `a.b=value` assignments; values are TOML, a bare word is a string, a number indexes a list."""
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        if not equals:
            raise ConfigError(f"--set {assignment!r}: expected KEY=VALUE, for example --set seed=2")
        _assign(data, path.strip().split("."), _toml_value(text.strip()), assignment)
    return data


def _toml_value(text: str) -> Any:
    try:
        read = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return read["value"] if len(read) == 1 else text


def _assign(data: dict[str, Any], keys: list[str], value: Any, assignment: str) -> None:
    node: Any = data
    for key in keys[:-1]:
        if isinstance(node, list):
            node = node[_list_index(node, key, assignment)]
        else:
            node = node.setdefault(key, {})
        if not isinstance(node, dict | list):
            raise ConfigError(f"--set {assignment!r}: {key!r} is a value, it has no keys below it")
    if isinstance(node, list):
        node[_list_index(node, keys[-1], assignment)] = value
    else:
        node[keys[-1]] = value


def _list_index(node: list[Any], key: str, assignment: str) -> int:
    if key not in map(str, range(len(node))):
        raise ConfigError(
            f"--set {assignment!r}: {key!r} is no index into a list of {len(node)} entries (0 is the first)"
        )
    return int(key)


def validate(model: type[M], data: Mapping[str, Any], where: str) -> M:
    """Validate `data`; a `ConfigError` has one line for each fault, with the way out."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise ConfigError("\n".join(_explain(fault, model, where) for fault in error.errors())) from None


def _explain(fault: ErrorDetails, model: type[BaseModel], where: str) -> str:
    path = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "extra_forbidden":
        key = str(fault["loc"][-1])
        known = sorted(_fields_at(model, fault["loc"][:-1]))
        close = get_close_matches(key, known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known keys: {', '.join(known)}"
        return f"{where}: unknown key {path!r}; {hint}"
    if fault["type"] == "missing":
        return f"{where}: {path!r} is missing; it is required"
    if fault["type"] == "value_error":  # a validator of ours, whose message says what it got
        return ": ".join([where, *([repr(path)] if path else []), fault["msg"].removeprefix("Value error, ")])
    return f"{where}: {path!r}: {fault['msg']}; got {_brief(fault['input'])}"


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN] + "..."


def _fields_at(model: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    """The field names of the model that `path` leads to; empty where it leads outside models."""
    current: Any = model
    for part in path:
        if isinstance(part, int):
            continue
        field = getattr(current, "model_fields", {}).get(part)
        if field is None:
            return []
        current = _model_within(field.annotation)
    return list(getattr(current, "model_fields", {}))


def _model_within(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inner = [_model_within(a) for a in getattr(annotation, "__args__", ())]
    return next((a for a in inner if a is not None), None)
