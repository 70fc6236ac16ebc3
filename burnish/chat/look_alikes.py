"""Texts that try to become control tokens, in every role that a template supports.

Covered: tokens spelled whole, inside themselves, one behind the other, in capitals, in full-width characters, with
characters that cannot be seen inside, and cut in halves at the ends of a message. Not covered: halves in two messages.
"""

from collections.abc import Callable, Iterator, Sequence

from burnish.chat import probes
from burnish.chat.rendering import Tokenizer
from burnish.chat.template import Chat
from burnish.core.errors import ConfigError
from burnish.core.types import Message, Role

_WORDS_AT_ONCE = 64
Place = Callable[[str], Sequence[int]]
"""Puts a text into a conversation and returns its ids."""


def counterexample(tokenizer: Tokenizer, chat: Chat) -> str | None:
    """Return a text that becomes a control token, with its role, or None."""
    added = tokenizer.added_tokens_decoder
    special = {token_id for token_id, token in added.items() if token.special}
    places = dict(_places(chat))
    written = {i for role, place in places.items() if role != "assistant" for i in place("ab")} & set(added)
    for role, place in places.items():
        # What only the model writes, such as <think>, is its own affair.
        watched = special if role == "assistant" else special | written
        plain = [token_id for token_id in place("ab") if token_id in watched]
        words, own = ([added[token_id].content for token_id in sorted(ids)] for ids in (watched, written))
        for text in (*_disguised(words), *_halved(own)):
            if [token_id for token_id in place(text) if token_id in watched] != plain:
                return f"as a message of role {role}, {text!r:.160} became control tokens"
    return None


def _places(chat: Chat) -> Iterator[tuple[Role, Place]]:
    so_far = (*chat.prompt_ids([probes.HELLO]), *chat.reply_ids("x"))
    ways: dict[Role, Place] = {
        "user": lambda text: chat.prompt_ids([Message(role="user", content=text)]),
        "system": lambda text: chat.prompt_ids([Message(role="system", content=text), probes.HELLO]),
        "assistant": lambda text: chat.reply_ids(text),
        "tool": lambda text: chat.continue_ids(so_far, [Message(role="tool", content=text)]),
    }
    for role, place in ways.items():
        try:
            place("ab")
        except ConfigError:  # a role that is not supported
            continue
        yield role, place


def _disguised(words: Sequence[str]) -> Iterator[str]:
    for start in range(0, len(words), _WORDS_AT_ONCE):
        some = words[start : start + _WORDS_AT_ONCE]
        for disguise in _DISGUISES:
            yield "a" + "b".join(map(disguise, some)) + "b"
        yield "a" + "".join(some) + "b"


def _halved(words: Sequence[str]) -> Iterator[str]:
    """Halves that what the template writes beside a message might complete."""
    for word in words:
        for at in range(1, len(word)):
            yield "a" + word[:at]
            yield word[at:] + "b"


def _full_width(word: str) -> str:
    """Characters that compatibility normalisation (NFKC) turns into the word's."""
    return "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in word)


_DISGUISES: tuple[Callable[[str], str], ...] = (
    str,
    str.upper,
    _full_width,
    lambda word: word[:1] + word + word[1:],
    lambda word: word[:2] + "\u200b" + word[2:],
    lambda word: word[:2] + "\u00ad" + word[2:],
)
