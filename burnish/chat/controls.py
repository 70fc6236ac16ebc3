"""Text that spells a control token stays text.

The word is cut by a seam, a character that no text at hand contains; the conversation is rendered with it, and
the pieces between seams are tokenised one by one, so that no piece spells the token.
"""

import re
from collections.abc import Iterable, Sequence

from burnish.core.errors import ConfigError
from burnish.core.types import Json

_PRIVATE_USE = (range(0xE000, 0xF900), range(0xF0000, 0xFFFFE), range(0x100000, 0x10FFFE))
_SURROGATE = re.compile("[\ud800-\udfff]")


def spelling(words: Iterable[str]) -> re.Pattern[str]:
    """A pattern of the words that can be cut: longer than a character, and not only space."""
    cuttable = sorted({word for word in words if len(word) > 1 and not word.isspace()}, key=lambda w: (-len(w), w))
    return re.compile("|".join(map(re.escape, cuttable)) or r"(?!)")


def unused(texts: Sequence[str], number: int) -> list[str]:
    """Return characters of private use that no text contains."""
    used = set("".join(texts))
    free = (chr(point) for points in _PRIVATE_USE for point in points if chr(point) not in used)
    found = [char for char, _ in zip(free, range(number), strict=False)]
    if len(found) < number:
        raise ConfigError("a conversation contains all 137,468 characters of private use, so that none can mark a cut")
    return found


def cut(text: str, words: re.Pattern[str], seam: str) -> str:
    """Cut each word behind its first character, until no piece holds one."""
    while any(words.search(piece) for piece in text.split(seam)):
        text = seam.join(words.sub(lambda m: m[0][0] + seam + m[0][1:], piece) for piece in text.split(seam))
    return text


def cut_all(value: Json, words: re.Pattern[str], seam: str) -> Json:
    """Cut in all texts of a JSON value, the names of its keys among them."""
    match value:
        case str():
            return cut(value, words, seam)
        case list():
            return [cut_all(item, words, seam) for item in value]
        case dict():
            return {cut(key, words, seam): cut_all(item, words, seam) for key, item in value.items()}
        case _:
            return value


def check_text(text: str, where: str) -> None:
    """Refuse what is no Unicode text: half of a surrogate pair has no bytes and so no tokens."""
    lone = _SURROGATE.search(text)
    if lone:
        raise ConfigError(
            f"{where} holds a lone surrogate, {lone[0]!a} at character {lone.start()}, which is half a character; "
            "read its source as UTF-8, or drop it: text.encode('utf-8', 'ignore').decode('utf-8')"
        )
