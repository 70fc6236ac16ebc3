"""Calls of tools are read in every family's way and written in the model's own; nothing that is written breaks them."""

import random
import time

import pytest

from burnish.chat.template import Chat
from burnish.chat.tool_calls import Speech, speech_of
from burnish.chat.tool_syntax import WRITERS
from burnish.core.types import Message, ToolCall
from tests.chat.families import family_tokenizer

TEXT = {"type": "string", "format": "text"}


def tool(name, needed, **properties):
    parameters = {"type": "object", "properties": properties, "required": needed}
    return {"type": "function", "function": {"name": name, "description": f"{name}.", "parameters": parameters}}


TOOLS = [
    tool("shell", ["command"], command=TEXT),
    tool("view", ["path"], path={"type": "string"}, first={"type": "integer"}, last={"type": "integer"}),
    tool("replace", ["path", "old", "new"], path={"type": "string"}, old=TEXT, new=TEXT),
    tool("submit", []),
]
FENCED = Speech(syntax="fenced", role="user")
CALLS = [
    ToolCall(name="shell", arguments={"command": "ls -la | grep 'a b'\necho \"{}\""}),
    ToolCall(name="view", arguments={"path": "a b/ü.py", "first": 3, "last": 10}),
    ToolCall(name="view", arguments={"path": "a.py"}),
    ToolCall(name="replace", arguments={"path": "a.py", "old": "  x = {\"a\": '<'}", "new": ""}),
    ToolCall(name="shell", arguments={"command": "cat <<'```'\n```python\n```\n"[:-1]}),
    ToolCall(name="submit", arguments={}),
]


@pytest.mark.parametrize("syntax", [*WRITERS, "fenced"])
@pytest.mark.parametrize("call", CALLS, ids=range(len(CALLS)))
def test_what_is_written_is_read_back(syntax, call):
    speech = Speech(syntax=syntax, role="user")
    assert speech.read(speech.write(call, TOOLS), TOOLS) == call
    assert speech.read(f"I will look first.\n{speech.write(call, TOOLS)}", TOOLS) == call or syntax == "bare"


@pytest.mark.parametrize(
    ("family", "syntax", "role"),
    [
        ("qwen3", "json", "tool"), ("llama3", "bare", "tool"), ("mistral", "mistral", "user"),
        ("gemma", "fenced", "user"), ("chatml", "fenced", "user"),
    ],
)  # fmt: skip
def test_a_models_template_says_how_it_calls(family, syntax, role):
    assert speech_of(Chat(family_tokenizer(family))) == Speech(syntax=syntax, role=role)


def test_a_model_without_tools_is_told_of_them_in_the_system_message_and_others_by_their_template():
    messages = [Message(role="system", content="Work."), Message(role="user", content="go")]
    shown, tools = FENCED.opening(messages, TOOLS)
    assert tools == () and shown[1:] == messages[1:]
    assert shown[0].content.startswith("Work.\n\n") and "```view PATH [FIRST] [LAST]\n```" in shown[0].content
    assert "```replace PATH\nOLD\n=======\nNEW\n```" in shown[0].content
    assert Speech(syntax="json", role="tool").opening(messages, TOOLS) == (messages, TOOLS)


READ = [
    ('{"name": "view", "arguments": {"path": "a", "first": "3"}}', {"path": "a", "first": 3}),
    ('{"tool_calls": [{"id": "1", "function": {"name": "view", "arguments": "{\\"path\\": \\"a\\"}"}}]}',
     {"path": "a"}),
    ('<|python_tag|>{"name": "view", "parameters": {"path": "a"}}', {"path": "a"}),
    ("<think>```view b\n```</think>\n```view a\n```", {"path": "a"}),
    ("```tool\n{\"name\": \"view\", \"arguments\": {\"path\": \"a\"}}\n```", {"path": "a"}),
    ("[view(path='a', first=3)]", {"path": "a", "first": 3}),
    ('<|tool_call_start|>[view(path="a")]<|tool_call_end|>', {"path": "a"}),
    ("For example:\n```python\nprint(1)\n```\n```view a\n```", {"path": "a"}),
]  # fmt: skip


@pytest.mark.parametrize(("turn", "arguments"), READ)
def test_other_ways_to_call_are_understood(turn, arguments):
    assert FENCED.read(turn, TOOLS) == ToolCall(name="view", arguments=arguments)


def test_bash_blocks_are_the_shell():
    assert FENCED.read("```bash\nls\n```", TOOLS) == ToolCall(name="shell", arguments={"command": "ls"})


@pytest.mark.parametrize(
    ("turn", "complaint"),
    [
        ("I think it is done.", "No call."),
        ("```submit\n```\n```submit\n```", "2 calls; make one"),
        ("```shell\nls", "not closed"),
        ("<tool_call>{\"name\": \"submit\"}", "not closed"),
        ("<tool_call>{\"name\": \"fly\", \"arguments\": {}}</tool_call>", "no tool 'fly'"),
        ("<tool_call>{\"name\": \"view\", \"arguments\": {\"pth\": 1}}</tool_call>", "view takes no 'pth'"),
        ("<tool_call>{\"name\": \"view\", \"arguments\": {}}</tool_call>", "view needs path"),
        ("<tool_call>{\"name\": \"view\", \"arguments\": {\"path\": 1}}</tool_call>", "path must be a string"),
        ("<tool_call>{\"name\": \"view\", \"arguments\": {\"path\": \"a\", \"last\": 1.5}}</tool_call>", "whole"),
        ("<tool_call>{\"name\": \"view\", \"arguments\": {\"path\": \"\\ud800\"}}</tool_call>", "half a character"),
        ("<tool_call>{\"name\": \"view\", \"name\": \"view\"}</tool_call>", "twice"),
        ("<tool_call>{\"name\": NaN}</tool_call>", "NaN is no JSON"),
        ("```view a b c d\n```", "at most 3 words"),
        ("```view a x\n```", "whole number"),
        ("```replace a\nold\n```", "2 texts"),
        ("```view\n```", "view needs path"),
        ("{\"name\": \"view\"", "invalid JSON"),
        ("[TOOL_CALLS]{}", "list of calls"),
        ("[view('a')]", "[NAME(KEY=VALUE)]"),
        ("[view(path=open('a'))]", "[NAME(KEY=VALUE)]"),
        ("[view(path=b'a')]", "[NAME(KEY=VALUE)]"),
        ("[view(path=1e999)]", "[NAME(KEY=VALUE)]"),
        ("[view(**{'path': 'a'})]", "[NAME(KEY=VALUE)]"),
        ("[view(path=" + "-" * 15_000 + "1)]", "[NAME(KEY=VALUE)]"),
        ("[view(path=" + "[" * 15_000 + ")]", "[NAME(KEY=VALUE)]"),
        ("[view(path='a'), submit()]", "2 calls; make one"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_a_short_sentence(turn, complaint):
    said = FENCED.read(turn, TOOLS)
    assert isinstance(said, str) and complaint in said and len(said) < 200


PIECES = [
    "<tool_call>", "</tool_call>", "<function=", "</function>", "<parameter=path>", "</parameter>", "<arg_key>",
    "</arg_key>", "<arg_value>", "</arg_value>", "[TOOL_CALLS]", "<|python_tag|>", "```", "````", "```shell\n", "\n",
    '{"name": "view", "arguments": {"path": "a"}}', '{"name":', "[", "{", "}", '"', "\\", "'", "view", "=======\n",
    "<think>", "</think>", "\x00", "\ud800", "é", "9" * 5000, "\t", " ", "=", ">", "submit",
    "[view(path='a')]", "[view(", "path=", ")", ",", "<|tool_call_start|>", "<|tool_call_end|>",
]  # fmt: skip


def test_no_mixture_of_pieces_raises():
    rng = random.Random(1)
    for _ in range(4000):
        turn = "".join(rng.choices(PIECES, k=rng.randint(1, 12)))
        read = FENCED.read(turn, TOOLS)
        assert isinstance(read, str | ToolCall)
        if isinstance(read, str):
            assert len(read) < 400


@pytest.mark.parametrize(
    "unit",
    ["[", '{"a":', "<tool_call>", "</tool_call>", "```", "```shell\n", "<parameter=", "<arg_key>", "\\", '"', "`",
     "<tool_call><function=", "'", "\n", "=======\n", "</think>", "[view(", "(", "-"],
)  # fmt: skip
def test_a_turn_that_only_repeats_something_is_read_in_time_that_grows_with_its_length(unit):
    """Four times the text: quadratic work would take sixteen times as long."""
    texts = [unit * (size // len(unit)) for size in (40_000, 160_000)]
    for prefix in ("", "<tool_call>", "```shell ", "[TOOL_CALLS]", "[view(path="):
        short, long = (min(_time_of(prefix + text) for _ in range(3)) for text in texts)
        assert long < 10 * max(short, 0.002)


def _time_of(turn: str) -> float:
    started = time.process_time()
    FENCED.read(turn, TOOLS)
    return time.process_time() - started


def test_a_turn_beyond_any_use_is_refused_unread():
    assert "write at most" in str(FENCED.read("x" * 300_000, TOOLS))
