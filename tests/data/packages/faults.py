"""Faults written by hand, for tests."""

from burnish.data.mutations.edits import Edit


def edit_of(source: str, before: str, after: str) -> Edit:
    """Replace a text where it first stands."""
    start = source.encode().index(before.encode())
    return Edit(start=start, end=start + len(before.encode()), before=before, after=after)
