"""Histories of small git repositories, as the bash commands of a task's setup.

Decisions: author, dates and branch name are fixed, so equal tasks have equal commits, hashes included. What is judged
is the agent's own repository, so every check reads it with hooks and file-system monitors switched off.
"""

import shlex
from collections.abc import Mapping
from typing import Final

START: Final = (
    "git init -q -b main .",
    "git config user.name Agent",
    "git config user.email agent@example.com",
    "git config commit.gpgsign false",
)
SAFE_GIT: Final = 'g() { git -c core.fsmonitor=false -c core.hooksPath=/dev/null -c core.pager=cat "$@"; }\nset -eu\n'
FIRST_DAY: Final = 1_700_000_000


def commit(message: str, number: int) -> str:
    """Commit all that there is, at a fixed time."""
    date = f"{FIRST_DAY + 3600 * number} +0000"
    return f"git add -A && GIT_AUTHOR_DATE='{date}' GIT_COMMITTER_DATE='{date}' git commit -q -m {shlex.quote(message)}"


def write(files: Mapping[str, str]) -> str:
    """Write files."""
    return " && ".join(f"printf %s {shlex.quote(text)} > {shlex.quote(name)}" for name, text in files.items())


def script(*checks: str) -> str:
    """A script that ends with 0 if every check does."""
    return SAFE_GIT + "".join(f"{check}\n" for check in checks)


def same(command: str, text: str) -> str:
    """Check what a command prints."""
    return f'test "$({command})" = {shlex.quote(text)}'
