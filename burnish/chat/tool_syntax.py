"""How models write calls of tools: one pair of functions a family, `write` a call and `read` the inside of a block.

- `json`: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>` (Hermes, Qwen 2.5 and 3).
- `functions`: `<tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>` (Qwen 3 Coder, 3.5).
- `pairs`: `<tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value></tool_call>` (GLM 4.5).
- `mistral`: `[TOOL_CALLS][{"name": ..., "arguments": {...}}]`.
- `bare`: `{"name": ..., "parameters": {...}}` as the whole turn (Llama 3; with `arguments`, or as OpenAI's API has it).
- Python: `[NAME(KEY=VALUE)]` as the whole turn, bare (Llama 4) or between tags (LFM2); read, and not written.
- `fenced`: a block of Markdown whose first line is the tool and its short arguments; for models without tools.

Decisions: all of them are read from any model, since a model that writes another family's call means it; one is
written. Everything is linear in the text: places are found by `split` and `partition`, never by a pattern that can
try again.
Values inside tags are text, which the tool's schema then makes numbers of.
Not covered: OpenAI's Harmony, Gemma 4: no model of those is supported yet.
"""

import ast
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from burnish.core.types import Json, ToolCall

OPENING, CLOSING = "<tool_call>", "</tool_call>"
MISTRAL: Final = "[TOOL_CALLS]"
PYTHON_TAG: Final = "<|python_tag|>"
PYTHON_OPENING, PYTHON_CLOSING = "<|tool_call_start|>", "<|tool_call_end|>"
LONGEST_PYTHON: Final = 20_000
"""Characters of calls in Python's syntax, whose parser is not ours."""
SEPARATOR: Final = "======="
"""Parts the texts of a fenced call, where a tool takes several."""
ALIASES: Final = {"bash": "shell", "sh": "shell", "console": "shell"}
"""What models without tools write before a command."""
JSON_FENCES: Final = ("tool", "json", "tool_call")


class Unreadable(ValueError):
    """A call that was begun and cannot be read; the message is what the policy is told."""


class Form(NamedTuple):
    """The parameters of a tool, as a fenced call orders them: short ones on its first line, texts below."""

    words: Sequence[str]
    texts: Sequence[str]


def form(tool: Mapping[str, Json]) -> Form:
    """The form of a tool's fenced call."""
    properties = parameters(tool)
    texts = [name for name, schema in properties.items() if schema.get("format") == "text"]
    return Form([name for name in properties if name not in texts], texts)


def function(tool: Mapping[str, Json]) -> Mapping[str, Json]:
    """The part of a tool that describes its function."""
    inner = tool.get("function")
    return inner if isinstance(inner, dict) else {}


def parameters(tool: Mapping[str, Json]) -> Mapping[str, Mapping[str, Json]]:
    """The schemas of a tool's parameters, in order."""
    schema = function(tool).get("parameters")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return {}
    return {name: each if isinstance(each, dict) else {} for name, each in properties.items()}


def write_json(call: ToolCall) -> str:
    """See the module's docstring; so for the others."""
    entry = {"name": call.name, "arguments": dict(call.arguments)}
    return f"{OPENING}\n{json.dumps(entry, ensure_ascii=False)}\n{CLOSING}"


def write_functions(call: ToolCall) -> str:
    """Each value on lines of its own."""
    values = "".join(f"<parameter={key}>\n{_as_text(value)}\n</parameter>\n" for key, value in call.arguments.items())
    return f"{OPENING}\n<function={call.name}>\n{values}</function>\n{CLOSING}"


def write_pairs(call: ToolCall) -> str:
    """A key and a value by turns."""
    values = "".join(
        f"<arg_key>{key}</arg_key>\n<arg_value>{_as_text(value)}</arg_value>\n" for key, value in call.arguments.items()
    )
    return f"{OPENING}{call.name}\n{values}{CLOSING}"


def write_mistral(call: ToolCall) -> str:
    """A list of one call."""
    entry = {"name": call.name, "arguments": dict(call.arguments)}
    return f"{MISTRAL}[{json.dumps(entry, ensure_ascii=False)}]"


def write_bare(call: ToolCall) -> str:
    """Llama's word for arguments."""
    return json.dumps({"name": call.name, "parameters": dict(call.arguments)}, ensure_ascii=False)


def write_fenced(call: ToolCall, tool: Mapping[str, Json]) -> str:
    """Short arguments on the first line, texts below; the newline that ends the last text is not doubled."""
    words, texts = form(tool)
    given = [name for name in words if name in call.arguments]
    head = " ".join([call.name, *(_quoted(_as_text(call.arguments[name])) for name in given)])
    body = f"\n{SEPARATOR}\n".join(_as_text(call.arguments.get(name, "")).removesuffix("\n") for name in texts)
    fence = "```"
    while fence in body:
        fence += "`"
    return f"{fence}{head}\n{body}\n{fence}" if texts else f"{fence}{head}\n{fence}"


def read_block(inside: str) -> ToolCall:
    """Read what stands between the tags of a call, in any family's way."""
    said = inside.strip()
    if said.startswith("{"):
        return read_object(loads(said))
    if said.startswith("<function="):
        return _read_functions(said)
    if "<arg_key>" in said or (said and "\n" not in said and "<" not in said):
        return _read_pairs(said)
    raise Unreadable("no JSON object stands between the tags")


def read_mistral(said: str) -> list[ToolCall]:
    """Read the list that follows `[TOOL_CALLS]`."""
    value = loads(said.strip())
    if not isinstance(value, list):
        raise Unreadable(f"a list of calls must follow {MISTRAL}")
    return [read_object(entry) for entry in value]


def is_python(said: str) -> bool:
    """Whether a turn looks like a list of calls in Python's syntax."""
    name, opened, _ = said[1:].lstrip()[:200].partition("(")
    return said.startswith("[") and bool(opened) and name.isidentifier()


def read_python(said: str) -> list[ToolCall]:
    """Read a list of calls with values by name."""
    if len(said) > LONGEST_PYTHON:
        raise Unreadable(f"calls of more than {LONGEST_PYTHON} characters")
    try:
        calls = ast.parse(said, mode="eval").body
        return [_python_call(call) for call in calls.elts] if isinstance(calls, ast.List) else []
    except (SyntaxError, TypeError, ValueError, RecursionError, MemoryError):  # what its parser says of hostile text
        raise Unreadable("a call is [NAME(KEY=VALUE)], its values plain ones") from None


def _python_call(call: ast.expr) -> ToolCall:
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
        raise ValueError("no call with values by name")
    values = {str(one.arg): ast.literal_eval(one.value) for one in call.keywords if one.arg is not None}
    if len(values) < len(call.keywords):
        raise ValueError("values without a name")
    return ToolCall(name=call.func.id, arguments=json.loads(json.dumps(values, allow_nan=False)))


def read_object(value: Json) -> ToolCall:
    """Read a call that is a JSON object, also as OpenAI's API writes it."""
    if isinstance(value, dict) and isinstance(value.get("function"), dict):
        value = value["function"]
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise Unreadable('a call is an object with "name" and "arguments"')
    arguments = value.get("arguments", value.get("parameters", {}))
    if isinstance(arguments, str):
        arguments = loads(arguments)
    if not isinstance(arguments, dict):
        raise Unreadable('"arguments" must be an object')
    return ToolCall(name=str(value["name"]), arguments=arguments)


def loads(text: str) -> Json:
    """Read JSON that may be hostile; `Unreadable` says what is wrong with it."""
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
    except json.JSONDecodeError as error:
        raise Unreadable(f"invalid JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise Unreadable("JSON that is nested too deeply") from None
    except ValueError as error:  # an integer of thousands of digits
        raise Unreadable(str(error)[:80]) from None


class Block(NamedTuple):
    """A fenced block of Markdown: the words after its opening fence, and its lines; not closed if `is_open`."""

    head: str
    lines: Sequence[str]
    is_open: bool


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a text; a fence is closed by one that is at least as long."""
    found: list[Block] = []
    fence, head, inside = "", "", list[str]()
    for line in text.split("\n"):
        ticks = len(line.lstrip()) - len(line.lstrip().lstrip("`"))
        rest = line.strip()[ticks:].strip()
        if not fence and ticks >= 3:
            fence, head, inside = "`" * ticks, rest, []
        elif fence and ticks >= len(fence) and not rest:
            found.append(Block(head, inside, is_open=False))
            fence = ""
        elif fence:
            inside.append(line)
    return [*found, Block(head, inside, is_open=True)] if fence else found


def read_fenced(block: Block, tools: Mapping[str, Mapping[str, Json]]) -> ToolCall | None:
    """Read a fenced call; None for a block that is no call, such as an example."""
    tag = block.head.split(maxsplit=1)[0] if block.head else ""
    name = ALIASES.get(tag, tag)
    if name not in tools and tag not in JSON_FENCES:
        return None
    if block.is_open:
        raise Unreadable("the block is not closed by ```")
    if name not in tools:
        return read_object(loads("\n".join(block.lines)))
    words, texts = form(tools[name])
    given = _words(block.head)[1:]
    if len(given) > len(words):
        raise Unreadable(f"{name} takes at most {len(words)} words on its first line, got {len(given)}")
    parts = _parts(block.lines, len(texts), name)
    return ToolCall(name=name, arguments=dict(zip(words, given, strict=False)) | dict(zip(texts, parts, strict=True)))


def _parts(lines: Sequence[str], number: int, name: str) -> list[str]:
    """A block's texts."""
    if number == 0:
        return []
    parts: list[list[str]] = [[]]
    for line in lines:
        if number > 1 and line.rstrip() == SEPARATOR:
            parts.append([])
        else:
            parts[-1].append(line)
    if len(parts) != number:
        raise Unreadable(f"{name} takes {number} texts, parted by a line {SEPARATOR}; got {len(parts)}")
    return ["\n".join(part) for part in parts]


def _words(head: str) -> list[str]:
    try:
        return shlex.split(head)
    except ValueError:
        return head.split()


def _read_functions(said: str) -> ToolCall:
    name, found, rest = said.removeprefix("<function=").partition(">")
    inside, closed, after = rest.rpartition("</function>")
    if not found or not closed or after.strip():
        raise Unreadable("<function=NAME> is not closed by </function>")
    arguments: dict[str, Json] = {}
    for piece in inside.split("<parameter=")[1:]:
        key, opened, value = piece.partition(">")
        value, ended, _ = value.rpartition("</parameter>")
        if not opened or not ended or key.strip() in arguments:
            raise Unreadable(f"<parameter={key[:40]}> is not closed, or given twice")
        arguments[key.strip()] = value.removeprefix("\n").removesuffix("\n")
    return ToolCall(name=name.strip(), arguments=arguments)


def _read_pairs(said: str) -> ToolCall:
    name, *pieces = said.split("<arg_key>")
    arguments: dict[str, Json] = {}
    for piece in pieces:
        key, found, rest = piece.partition("</arg_key>")
        value, closed, _ = rest.partition("<arg_value>")[2].rpartition("</arg_value>")
        if not found or not closed or key.strip() in arguments:
            raise Unreadable(f"<arg_key>{key[:40]} is not followed by one <arg_value>...</arg_value>")
        arguments[key.strip()] = value
    return ToolCall(name=name.strip(), arguments=arguments)


def _quoted(word: str) -> str:
    return word if word and not set(word) & set(" \t\n\r\"'\\`") else shlex.quote(word)


def _as_text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise Unreadable("a key that stands twice in one object")
    return dict(pairs)


def _constant(word: str) -> Json:
    raise Unreadable(f"{word} is no JSON")


WRITERS: Final[Mapping[str, Callable[[ToolCall], str]]] = {
    "json": write_json,
    "functions": write_functions,
    "pairs": write_pairs,
    "mistral": write_mistral,
    "bare": write_bare,
}
"""Those that templates write."""
