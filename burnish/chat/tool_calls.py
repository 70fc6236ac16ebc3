"""Calls of tools in a model's own words: what its template writes, or fenced blocks where it has no tools.

`speech_of(chat)` finds out how a model calls: its template is asked to show tools, a call and a result, and the syntax
that writes what the template wrote is the model's. Otherwise calls are fenced blocks, the system message says how, and
results come from the user.

    speech = speech_of(chat)
    messages, shown = speech.opening(messages, tools)
    ids = chat.prompt_ids(messages, shown)
    call = speech.read(reply, tools)          # a ToolCall; or a str: what the policy did wrong, to be told

Decisions: one call a turn; text around it is thinking aloud. A call is checked against the tool's schema here, so that
an environment gets right types. What cannot be read never raises: it is a short sentence that says what to do instead.
Covered: hostile text (linear time, any nesting, lone surrogates). Not covered: several calls in a turn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from burnish.chat import probes
from burnish.chat.rendering import Tool
from burnish.chat.template import Chat
from burnish.chat.thinking import CLOSING as THOUGHT
from burnish.chat.tool_syntax import (
    CLOSING,
    MISTRAL,
    OPENING,
    PYTHON_CLOSING,
    PYTHON_OPENING,
    PYTHON_TAG,
    SEPARATOR,
    WRITERS,
    Unreadable,
    blocks,
    form,
    function,
    is_python,
    loads,
    parameters,
    read_block,
    read_fenced,
    read_mistral,
    read_object,
    read_python,
    write_fenced,
)
from burnish.core.errors import ConfigError
from burnish.core.types import Json, Message, Role, ToolCall

LONGEST: Final = 200_000
FENCED: Final = "fenced"
_PROBE: Final = ToolCall(name=probes.TOOL_NAME, arguments={"word": "probe word"})
_CALL_ID: Final = ',"id":"call00001"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Speech:
    """How a model calls tools: `syntax` is its family's, and `role` who brings results."""

    syntax: str
    role: Role

    def opening(self, messages: Sequence[Message], tools: Sequence[Tool]) -> tuple[list[Message], Sequence[Tool]]:
        """The messages to begin with, and the tools that the template is to show."""
        if self.syntax != FENCED or not tools:
            return list(messages), tools
        first, rest = (messages[0], messages[1:]) if messages and messages[0].role == "system" else (None, messages)
        text = "\n\n".join([*([first.content] if first else []), described(tools)])
        return [Message(role="system", content=text), *rest], ()

    def write(self, call: ToolCall, tools: Sequence[Tool]) -> str:
        """A turn that makes this call."""
        if self.syntax != FENCED:
            return WRITERS[self.syntax](call)
        by_name = _by_name(tools)
        if call.name not in by_name:
            raise ConfigError(f"no tool {call.name!r} to write a call of; there are: {', '.join(by_name)}")
        return write_fenced(call, by_name[call.name])

    def read(self, turn: str, tools: Sequence[Tool]) -> ToolCall | str:
        """The call of a turn, its values as the schema has them; or what is wrong, in words for the policy."""
        by_name = _by_name(tools)
        said = turn.rpartition(THOUGHT)[2]
        if len(said) > LONGEST:
            return f"A turn of {len(said)} characters; write at most {LONGEST}."
        try:
            calls = _calls(said, by_name)
            if len(calls) == 1:
                return _checked(calls[0], by_name)
        except Unreadable as error:
            return f"The call cannot be read: {error}."
        return f"{len(calls)} calls; make one a turn." if calls else f"No call. {self._way(by_name)}"

    def _way(self, tools: Mapping[str, Tool]) -> str:
        names = ", ".join(tools)
        if self.syntax == FENCED:
            return f"Write a block that begins with ``` and one of: {names}."
        return f"Call one of: {names}."


def speech_of(chat: Chat) -> Speech:
    """How the model of a chat calls tools; fenced blocks unless its template shows tools and a known way to call."""
    try:
        prompt = chat.prompt_ids([probes.HELLO], [probes.TOOL])
        written = _squeezed(chat.call_text(_PROBE).rpartition(THOUGHT)[2])
    except ConfigError:
        return Speech(syntax=FENCED, role="user")
    for syntax, write in WRITERS.items():
        if _squeezed(write(_PROBE)) == written.replace(_CALL_ID, ""):
            return Speech(syntax=syntax, role=_role_of_results(chat, prompt))
    return Speech(syntax=FENCED, role="user")


def _role_of_results(chat: Chat, prompt_ids: Sequence[int]) -> Role:
    """A template may refuse results without the id of a call; then the user brings them."""
    try:
        chat.continue_ids((*prompt_ids, *chat.reply_ids("wait")), [Message(role="tool", content=probes.TOOL_RESULT)])
    except ConfigError:
        return "user"
    return "tool"


def _squeezed(text: str) -> str:
    return "".join(text.split())


def described(tools: Sequence[Tool]) -> str:
    """Tools as text, for models whose template shows none."""
    lines = ["Each turn, call one tool with one fenced block:"]
    for tool in tools:
        words, texts = form(tool)
        needed = _needed(tool)
        head = " ".join(
            [
                str(function(tool).get("name")),
                *(word.upper() if word in needed else f"[{word.upper()}]" for word in words),
            ]
        )
        body = f"\n{SEPARATOR}\n".join(text.upper() for text in texts)
        lines.append(f"```{head}\n{body}\n```" if texts else f"```{head}\n```")
        lines.append(str(function(tool).get("description", "")))
    return "\n".join(lines)


def _by_name(tools: Sequence[Tool]) -> dict[str, Tool]:
    return {str(function(tool).get("name")): tool for tool in tools}


def _calls(said: str, tools: Mapping[str, Tool]) -> list[ToolCall]:
    if OPENING in said:
        _, *pieces = said.split(OPENING)
        if any(piece.count(CLOSING) != 1 for piece in pieces):
            raise Unreadable(f"a {OPENING} that is not closed by {CLOSING}")
        return [read_block(piece.partition(CLOSING)[0]) for piece in pieces]
    if MISTRAL in said:
        return read_mistral(said.partition(MISTRAL)[2])
    fenced = [call for block in blocks(said) if (call := read_fenced(block, tools))]
    if fenced:
        return fenced
    bare = said.strip().removeprefix(PYTHON_TAG).strip()
    python = bare.removeprefix(PYTHON_OPENING).removesuffix(PYTHON_CLOSING).strip()
    if is_python(python):
        return read_python(python)
    return _bare(bare) if bare.startswith("{") or bare.startswith("[{") else []


def _bare(said: str) -> list[ToolCall]:
    """The whole turn is JSON: one call, a list of them, or OpenAI's `tool_calls`."""
    value = loads(said)
    if isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
        value = value["tool_calls"]
    return [read_object(entry) for entry in value] if isinstance(value, list) else [read_object(value)]


def _checked(call: ToolCall, tools: Mapping[str, Tool]) -> ToolCall:
    """The call with its values as the tool's schema has them."""
    if call.name not in tools:
        raise Unreadable(f"no tool {ascii(call.name)[:40]}; there are: {', '.join(tools)}")
    schemas = parameters(tools[call.name])
    if unknown := [name for name in call.arguments if name not in schemas]:
        raise Unreadable(f"{call.name} takes no {ascii(unknown[0])[:40]}; it takes: {', '.join(schemas) or 'nothing'}")
    if missing := [name for name in _needed(tools[call.name]) if name not in call.arguments]:
        raise Unreadable(f"{call.name} needs {', '.join(missing)}")
    values = {name: _value(value, schemas[name], name) for name, value in call.arguments.items()}
    return replace(call, arguments=values)


def _needed(tool: Tool) -> list[str]:
    schema = function(tool).get("parameters")
    required = schema.get("required") if isinstance(schema, dict) else None
    return [str(name) for name in required] if isinstance(required, list) else []


def _value(value: Json, schema: Mapping[str, Json], name: str) -> Json:
    """A value as its schema has it: whole numbers may come as text."""
    if schema.get("type") == "integer":
        if isinstance(value, str) and value.strip().lstrip("-").isdecimal() and len(value) < 20:
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise Unreadable(f"{name} must be a whole number")
        return value
    if schema.get("type") == "string":
        if not isinstance(value, str):
            raise Unreadable(f"{name} must be a string")
        if any("\ud800" <= letter <= "\udfff" for letter in value) or "\0" in value:
            raise Unreadable(f"{name} holds a NUL or half a character")
    return value
