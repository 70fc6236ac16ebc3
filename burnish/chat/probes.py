"""Small conversations by which a template shows what it does."""

from burnish.chat.rendering import Tool
from burnish.core.types import Message

HELLO = Message(role="user", content="hi")
TOOL_NAME = "look_up"
TOOL: Tool = {
    "type": "function",
    "function": {
        "name": TOOL_NAME,
        "description": "Look a word up.",
        "parameters": {
            "type": "object",
            "properties": {"word": {"type": "string", "description": "The word."}},
            "required": ["word"],
        },
    },
}
TOOL_RESULT = "forty-two"
TOOL_TURNS = (
    HELLO,
    Message(role="assistant", content="wait"),
    Message(role="tool", content=TOOL_RESULT),
)
