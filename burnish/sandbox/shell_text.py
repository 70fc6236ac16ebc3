"""What a shell's bash is told to read, and what of its output is shown.

Each command is followed by a line that writes a random word to the terminal, which marks where the command's output
ends, and then reports the exit code and the folder under the same word (`shell.py` says why that cannot be forged).
"""

import re
from typing import Final, NamedTuple

REPORT_FD: Final = 3
SHOWN_BYTES: Final = 16_384
ANSI: Final = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/]*[0-~])")
"""No escape code spans another ESC, so that each is looked at once: what a command prints may hold nothing else."""
ARGV: Final = ("bash", "--norc", "--noprofile", "--noediting", "-i")
SETUP: Final = (
    'PS1= PS2= PS0= PROMPT_COMMAND=; unset HISTFILE MAILCHECK; set +o history +H; __burnish() { return "$1"; }; '
    "__burnish_report() { printf '\\036%s\\036' \"$1\" >/dev/tty; printf '%s\\0' \"$@\" >&3; }; "
    "shopt -s expand_aliases\n"
)
ENTER: Final = "{ __burnish_old=$OLDPWD; cd . 2>/dev/null; OLDPWD=$__burnish_old; unset __burnish_old; }; "
MARK: Final = b"\x1e%s\x1e"
PADDING: Final = " " * 4096
"""Bash reads ahead, by 1024 bytes in 5.2: what lies so far behind a command is not in its memory while that runs."""


class Shown(NamedTuple):
    """The output that a reply holds, and whether its middle was cut."""

    text: bytes
    was_truncated: bool


def wrapped(command: str, word: bytes, last_code: int, *, enters_again: bool) -> bytes:
    """Write what bash reads: the command, with `$?` as the last one left it, and its report."""
    return (
        f"{ENTER if enters_again else ''}__burnish {last_code}; eval {_quoted(command)} {REPORT_FD}>&- </dev/tty\n"
        f"{PADDING}\n"
    ).encode(errors="surrogateescape") + report(word)


def report(word: bytes) -> bytes:
    """Write the line that reports the command before it."""
    return b'{ __burnish_report %b "$?" "$PWD"; } 2>/dev/null\n' % word


def shown(output: bytes, *, strips_ansi: bool) -> Shown:
    """Cut the middle out of what is too long for a reply."""
    text = ANSI.sub(b"", output) if strips_ansi else output
    if len(text) <= SHOWN_BYTES:
        return Shown(text, False)
    half = SHOWN_BYTES // 2
    left_out = len(text) - 2 * half
    cut = f"\n[... {left_out} bytes left out; page() has them ...]\n".encode()
    return Shown(text[:half] + cut + text[-half:], True)


def _quoted(command: str) -> str:
    return "'" + command.replace("'", "'\\''") + "'"
