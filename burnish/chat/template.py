"""Messages to token ids, with the tokenizer's own chat template; token ids to text.

A prompt is rendered with the generation prompt. A demonstration is that prompt's ids, untouched, then
the reply's ids, then the end-of-turn token: what is trained continues exactly what is sampled from.

A *control token* is one that the tokenizer calls special, or that the template emits. Text in a message
that spells one ("<|im_end|>") stays text: it is cut inside the word by a seam, rendered with it, and the
pieces are tokenised one by one, so that no piece spells the token.

Covered: any tokenizer with a chat template that extends a prompt by appending to it. Not covered:
templates that rewrite earlier turns (refused), tools, images.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from jinja2.exceptions import TemplateError

from burnish.core.errors import ConfigError
from burnish.core.types import Message

_PROBE_REPLY = "reply"
_SEAMS = [chr(point) for point in range(0xE000, 0xE020)]  # private use: no text of the world contains them all


class AddedToken(Protocol):
    """An entry of the tokenizer's table of added tokens."""

    content: str
    special: bool


class Tokenizer(Protocol):
    """What is asked of a transformers tokenizer."""

    chat_template: Any
    eos_token_id: int | None

    @property
    def added_tokens_decoder(self) -> Mapping[int, AddedToken]:
        """Added tokens by id."""
        ...

    def apply_chat_template(
        self, conversation: list[dict[str, str]], *, tokenize: bool, add_generation_prompt: bool
    ) -> Any:
        """Render a conversation to text."""
        ...

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Tokenise text."""
        ...

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool, clean_up_tokenization_spaces: bool) -> str:
        """Return the text of token ids."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration:
    """A conversation with a reply to learn: `was_sampled` marks the reply and its end-of-turn token."""

    token_ids: tuple[int, ...]
    was_sampled: tuple[bool, ...]


class Chat:
    """A tokenizer's chat template, proven to continue a prompt by appending to it."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        if not tokenizer.chat_template:
            raise ConfigError(
                "the tokenizer has no chat template; use an instruction model or set tokenizer.chat_template"
            )
        self._tokenizer = tokenizer
        self._added = tokenizer.added_tokens_decoder
        prompt = self._render([Message(role="user", content="hi")], True)
        tail_ids = self._encode(self._tail([Message(role="user", content="hi")], _PROBE_REPLY, prompt))
        self._controls = self._find_controls(self._encode(prompt) + tail_ids)
        self._end_ids = self._find_end(tail_ids)
        eos = tokenizer.eos_token_id
        self.stop_ids: frozenset[int] = frozenset({self._end_ids[-1]} | ({eos} if eos is not None else set()))

    def prompt_ids(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Return the ids that a reply to `messages` is sampled after."""
        seam = self._seam(messages)
        return tuple(self._encode_pieces(self._render(self._cut_all(messages, seam), True), seam))

    def demonstration(self, messages: Sequence[Message], reply: str) -> Demonstration:
        """Return the prompt's ids, the reply's ids and the end of the turn."""
        self._tail(messages, reply, self._render(messages, True))
        prompt_ids, reply_ids = self.prompt_ids(messages), self.reply_ids(reply)
        return Demonstration(
            token_ids=prompt_ids + reply_ids,
            was_sampled=(False,) * len(prompt_ids) + (True,) * len(reply_ids),
        )

    def reply_ids(self, reply: str) -> tuple[int, ...]:
        """Return the ids of a model's turn: the reply and the end of the turn."""
        seam = self._seam([Message(role="assistant", content=reply)])
        return (*self._encode_pieces(self._cut(reply, seam), seam), *self._end_ids)

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of a model's turn, without the stop token that ended it."""
        ids = list(token_ids)
        if ids and ids[-1] in self.stop_ids:
            ids.pop()
        return self._tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def _render(self, messages: Sequence[Message], generation_prompt: bool) -> str:
        try:
            return self._tokenizer.apply_chat_template(
                [asdict(message) for message in messages], tokenize=False, add_generation_prompt=generation_prompt
            )
        except TemplateError as error:
            roles = ", ".join(message.role for message in messages)
            raise ConfigError(f"the model's chat template refuses a conversation of roles {roles}: {error}") from None

    def _tail(self, messages: Sequence[Message], reply: str, prompt: str) -> str:
        """What the template appends to a prompt with a reply, without the reply; proves that it appends."""
        whole = self._render([*messages, Message(role="assistant", content=reply)], False)
        if not whole.startswith(prompt):
            raise ConfigError(
                "the model's chat template does not continue its own prompt: "
                f"expected a text that starts with {prompt[-80:]!r}, got {whole[-160:]!r}; use another template"
            )
        return whole[len(prompt) :].removeprefix(reply)

    def _find_controls(self, rendered_ids: list[int]) -> re.Pattern[str]:
        emitted = set(rendered_ids)
        words = {t.content for i, t in self._added.items() if t.special or i in emitted}
        words = {word for word in words if len(word) > 1 and not word.isspace()}
        return re.compile("|".join(re.escape(word) for word in sorted(words, key=len, reverse=True)) or r"(?!)")

    def _find_end(self, tail_ids: list[int]) -> tuple[int, ...]:
        """The ids up to the first control token after a reply: that token ends a turn."""
        for index, token_id in enumerate(tail_ids):
            added = self._added.get(token_id)
            if token_id == self._tokenizer.eos_token_id or (added and self._controls.fullmatch(added.content)):
                return tuple(tail_ids[: index + 1])
        raise ConfigError("the model's chat template ends a turn with no special token, so that a reply has no end")

    def _seam(self, messages: Sequence[Message]) -> str:
        """A character that no message contains, or nothing where no message spells a control token."""
        texts = [message.content for message in messages]
        if not any(self._controls.search(text) for text in texts):
            return ""
        return next(seam for seam in _SEAMS if not any(seam in text for text in texts))

    def _cut_all(self, messages: Sequence[Message], seam: str) -> list[Message]:
        return [Message(role=m.role, content=self._cut(m.content, seam)) for m in messages]

    def _cut(self, text: str, seam: str) -> str:
        return self._controls.sub(lambda m: m[0][0] + seam + m[0][1:], text) if seam else text

    def _encode_pieces(self, text: str, seam: str) -> list[int]:
        return [i for piece in (text.split(seam) if seam else [text]) for i in self._encode(piece)]

    def _encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False)
