"""The tools of the terminal, as OpenAI's API writes them. Descriptions are short: a small model reads them all."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, cast

from burnish.core.errors import ConfigError
from burnish.core.types import Json
from burnish.domains import Tool

_WORD: Final[Mapping[str, Json]] = {"type": "string"}
_TEXT: Final[Mapping[str, Json]] = {"type": "string", "format": "text"}
_NUMBER: Final[Mapping[str, Json]] = {"type": "integer"}


def _tool(
    name: str, description: str, optional: Mapping[str, Mapping[str, Json]] | None = None, **needed: Json
) -> Tool:
    properties: dict[str, Json] = {**needed, **{key: dict(schema) for key, schema in (optional or {}).items()}}
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {"type": "object", "properties": properties, "required": list(needed)},
        },
    }


TOOLS: Final[tuple[Tool, ...]] = (
    _tool("shell", "Run a bash command. The shell keeps its folder.", command=dict(_TEXT)),
    _tool("view", "Show a file or a folder.", {"first": _NUMBER, "last": _NUMBER}, path=dict(_WORD)),
    _tool("create", "Write a file.", path=dict(_WORD), content=dict(_TEXT)),
    _tool("replace", "Replace OLD, which stands once.", path=dict(_WORD), old=dict(_TEXT), new=dict(_TEXT)),
    _tool("insert", "Insert after a line.", path=dict(_WORD), line=dict(_NUMBER), content=dict(_TEXT)),
    _tool("undo", "Take back the last change of a file.", path=dict(_WORD)),
    _tool("page", "Show more of a long output, from a character on.", start=dict(_NUMBER)),
    _tool("submit", "Say that the work is done."),
)  # fmt: skip


def chosen(names: Collection[str], where: str) -> Sequence[Tool]:
    """The tools of these names, all where none are named; `ConfigError` for unknown ones, or without an end."""
    by_name = {str(cast(Mapping[str, Json], tool["function"])["name"]): tool for tool in TOOLS}
    if unknown := sorted(set(names) - by_name.keys()):
        raise ConfigError(f"{where}: tools: no tool {', '.join(map(repr, unknown))}; there are: {', '.join(by_name)}")
    if names and "submit" not in names:
        raise ConfigError(f"{where}: tools: without 'submit' no episode would end by itself; add it")
    return [tool for name, tool in by_name.items() if not names or name in names]
