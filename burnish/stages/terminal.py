"""The terminal that stages print to: text is text.

Names of domains, models and folders are a user's, and `[/]` is a legal part of one; so no console of ours reads
markup. What is to stand out is given a style.
"""

from rich.console import Console
from rich.text import Text


def terminal(*, stderr: bool = False) -> Console:
    """A console that prints brackets as brackets."""
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def styled(*parts: str | tuple[str, str]) -> Text:
    """One text of plain parts and of (part, style)."""
    return Text.assemble(*parts)
