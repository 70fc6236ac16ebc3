"""What the policy is told: outputs cut in the middle, cleaned of what is no text."""

import re
from typing import Final

_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-9;?]{0,32}[@-~]|\][^\x07\x1b]{0,256}\x07|[@-Z\\-_])")
_CONTROLS: Final = {code: None for code in range(32) if chr(code) not in "\t\n"} | {0x7F: None}
_SURROGATES: Final = re.compile("[\ud800-\udfff]")


def plain(output: str) -> str:
    """A program's output as text: without escape codes, control characters and halves of characters."""
    text = _ESCAPES.sub("", output).replace("\r\n", "\n").translate(_CONTROLS)
    return _SURROGATES.sub("\ufffd", text)


def cut(text: str, most: int) -> str:
    """At most about so many characters: the middle goes, and it is said how to see it."""
    if len(text) <= most:
        return text
    head, tail = text[: most // 2], text[len(text) - (most - most // 2) :]
    newline = head.rfind("\n")
    head = head[: newline + 1] if newline > len(head) // 2 else head
    newline = tail.find("\n")
    tail = tail[newline + 1 :] if 0 <= newline < len(tail) // 2 else tail
    left_out = len(text) - len(head) - len(tail)
    return f"{head}[{left_out} characters left out; page {len(head)} shows them]\n{tail}"


def page(text: str, start: int, most: int) -> str:
    """A piece of a long output."""
    start = max(0, min(start, len(text)))
    end = min(len(text), start + most)
    rest = f"\n[{len(text) - end} characters follow; page {end} shows them]" if end < len(text) else ""
    return text[start:end] + rest if start < len(text) else f"[the output has {len(text)} characters]"
