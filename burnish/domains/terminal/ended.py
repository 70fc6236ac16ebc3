"""Chores that are judged by the files at their end: one builder for all families of that kind."""

from collections.abc import Mapping, Sequence

from burnish.domains.terminal.oracle import Call, submit
from burnish.domains.terminal.spec import EndStateCheck, TerminalTask
from burnish.rewards.end_state import ExpectedFile


def chore(
    family: str,
    level: int,
    instruction: str,
    files: Mapping[str, str],
    expected: Mapping[str, str | None],
    oracle: Sequence[Call],
) -> TerminalTask:
    """A task whose expected files are these; None is a file that must be gone. All other files must stay.

    `oracle` goes without its submit. Files that are not to change are expected as they are, so that a chore that is
    done by harming something else is not done.
    """
    kept = {name: text for name, text in files.items() if name not in expected}
    return TerminalTask(
        family=family,
        level=level,
        instruction=instruction,
        files=files,
        check=EndStateCheck(expected=tuple(_expected(name, text) for name, text in {**expected, **kept}.items())),
        oracle=(*oracle, submit()),
        max_steps=8 if level < 3 else 12,
        source=family,
    )


def _expected(name: str, text: str | None) -> ExpectedFile:
    if text is None:
        return ExpectedFile(name=name, way="absent")
    return ExpectedFile(name=name, content=text.encode())
