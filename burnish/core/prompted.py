"""What a line of a user's JSONL file says of its prompt: a text, or a list of messages with `role` and `content`."""

from pydantic import field_validator

from burnish.core.config import Strict
from burnish.core.types import Message, Role, hash_of_prompt


class Turn(Strict):
    """One message of a prompt."""

    role: Role
    content: str


class Prompted(Strict):
    """What all lines have."""

    prompt: tuple[Turn, ...]

    @field_validator("prompt", mode="before")
    @classmethod
    def _a_string_is_the_users_turn(cls, prompt: object) -> object:
        if isinstance(prompt, str) and prompt.strip():
            return ({"role": "user", "content": prompt},)
        if isinstance(prompt, list) and prompt:
            return tuple(prompt)
        raise ValueError("expected a text, or a list of messages with role and content")

    @property
    def messages(self) -> tuple[Message, ...]:
        """The prompt as the record that tasks and templates take."""
        return tuple(Message(role=turn.role, content=turn.content) for turn in self.prompt)

    @property
    def prompt_hash(self) -> str:
        """As of a task with that prompt."""
        return hash_of_prompt(self.messages)
