"""What is asked of a tokenizer, and the one call that renders a conversation with its chat template."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from jinja2.exceptions import TemplateError

from burnish.core.errors import ConfigError
from burnish.core.types import Json

Turn = Mapping[str, Json]
"""A turn as templates read it: `role`, `content`, perhaps `tool_calls`."""
Tool = Mapping[str, Json]
"""A tool as OpenAI's API writes it: `type` is `function`, `function` has name, description and parameters."""


class AddedToken(Protocol):
    """An entry of the tokenizer's table of added tokens."""

    content: str
    special: bool


class Backend(Protocol):
    """The tokenizer of the tokenizers library."""

    def to_str(self) -> str:
        """Write it as JSON."""
        ...


class Tokenizer(Protocol):
    """What is asked of a transformers tokenizer."""

    chat_template: Any
    eos_token_id: int | None
    is_fast: bool

    @property
    def backend_tokenizer(self) -> Backend:
        """What a fast tokenizer runs on."""
        ...

    @property
    def added_tokens_decoder(self) -> Mapping[int, AddedToken]:
        """Added tokens by id."""
        ...

    def apply_chat_template(
        self,
        conversation: list[dict[str, Json]],
        *,
        tools: list[dict[str, Json]] | None,
        tokenize: bool,
        add_generation_prompt: bool,
    ) -> Any:
        """Render a conversation to text."""
        ...

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Tokenise text."""
        ...

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool, clean_up_tokenization_spaces: bool) -> str:
        """Return the text of token ids."""
        ...


def render(tokenizer: Tokenizer, turns: Sequence[Turn], *, generation_prompt: bool, tools: Sequence[Tool] = ()) -> str:
    """Render to text; `ConfigError` if the template refuses or cannot."""
    try:
        return tokenizer.apply_chat_template(
            [dict(turn) for turn in turns],
            tools=[dict(tool) for tool in tools] or None,
            tokenize=False,
            add_generation_prompt=generation_prompt,
        )
    except (TemplateError, TypeError) as error:  # jinja lets Python's own errors in expressions through
        roles = ", ".join(str(turn["role"]) for turn in turns)
        raise ConfigError(f"the model's chat template refuses a conversation of roles {roles}: {error}") from None
