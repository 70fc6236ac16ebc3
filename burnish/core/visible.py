"""Text of unknown origin made safe to show: what a reader cannot see, or what gives orders to a terminal.

Controls (escape codes among them), bidi overrides and lone surrogates are written as ⟨U+202E⟩; line breaks
and tabs stay. Not covered: letters that look like others.
"""

import re

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    """Write characters that cannot be seen, or that reorder text, by their code point."""
    return _UNSEEN.sub(lambda match: f"⟨U+{ord(match[0]):04X}⟩", text)
