"""What a shell command does, as far as its words say: looks, searches, runs tests, reaches out. Rules that can be read.

A command is cut at `;`, `&&`, `||`, `|` and line ends; each part is judged by its first word. Its words are those of
`shlex`; a part that is no plain command (a loop, a function) is none of these kinds.

Decision: what a test run printed is believed only if nothing else in the command could have written it: parts other
than the runner are of a short list that prints files or filters. What is believed can earn a process part, never an
outcome: that is judged elsewhere.
"""

import re
import shlex
from collections.abc import Collection, Sequence
from itertools import dropwhile, pairwise
from typing import Final, NamedTuple

from burnish.rewards.process import Event, EventKind

LONGEST: Final = 20_000
"""Of a command that is run at all."""
MOST_PARTS: Final = 200
_PARTS: Final = re.compile(r"&&|\|\||[;|\n]")
_ASSIGNMENT: Final = re.compile(r"^\w{1,200}=")
_REDIRECTION: Final = re.compile(r"^\d?>|^&>")
_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (?!\()(\S.*?)(?: - .*)?$", re.MULTILINE)
_UNITTEST: Final = re.compile(r"^(?:FAIL|ERROR): \S+ \(([\w.]{1,200})\)", re.MULTILINE)
_COUNTS: Final = re.compile(r"\b(\d{1,6}) (passed|failed|errors?)\b")
_RAN: Final = re.compile(r"^Ran (\d{1,6}) tests? in ", re.MULTILINE)
_HIT: Final = re.compile(r"^(?:\./)?([^:\s]{1,200}):(\d{1,7}):", re.MULTILINE)
_LONE_HIT: Final = re.compile(r"^(\d{1,7}):", re.MULTILINE)
_SPAN: Final = re.compile(r"^(\d{1,7})(?:,(\d{1,7}))?p$")
LOOKS: Final = frozenset({"cat", "head", "tail", "less", "more", "nl", "sed", "awk"})
SEARCHES: Final = frozenset({"grep", "rg", "egrep", "fgrep"})
QUIET: Final = (LOOKS | SEARCHES | {"cd", "ls", "pwd", "export", "set", "wc", "true", "git", "find"}) - {"sed", "awk"}
"""What prints files and names as they are, and no words of the command's own."""
ADMINISTERS: Final = frozenset({"mkfs", "shutdown", "reboot", "mount", "umount", "chroot", "sudo", "su"})
NETWORKS: Final = frozenset({"curl", "wget", "ssh", "scp", "nc", "telnet"})
OWN: Final = ("/work/", "/tmp/")
EVERYTHING: Final = frozenset({"/", "~", "*", ".", "./", "./*", "/work", "/work/", "/work/*", "$HOME"})
_OUTSIDE: Final = re.compile(r">\s?/(?!work/|tmp/|dev/(?:null|stdout|stderr))\w")


class Ran(NamedTuple):
    """A finished command: its words, what it printed, where, and how it ended."""

    command: str
    output: str
    cwd: str
    exit_code: int | None


def why_forbidden(command: str) -> str:
    """Which rule a command breaks, in words; empty if none. What no task needs is forbidden."""
    if ":(){" in command.replace(" ", ""):
        return "forks without end"
    if _OUTSIDE.search(command):
        return "writes outside its folder"
    return next((why for words in _parts(command) if (why := _why_forbidden(words))), "")


def _why_forbidden(words: Sequence[str]) -> str:
    program, rest = words[0].rpartition("/")[2], words[1:]
    names = [word for word in rest if not word.startswith("-")]
    if program == "rm" and any(name in EVERYTHING or (name[:1] == "/" and not name.startswith(OWN)) for name in names):
        return "removes what is not its own"
    if program in ADMINISTERS or (program == "kill" and rest[-1:] == ["-1"]):
        return "administers the machine"
    if any(word.startswith("of=/dev/") for word in rest):
        return "writes to a device"
    if program in NETWORKS or (program == "git" and names[:1] in (["push"], ["fetch"], ["pull"])):
        return "reaches for a network"
    if program == "git" and names[:1] == ["clone"] and any("://" in name for name in names):
        return "reaches for a network"
    if any(name in ("install", "download") for name in names[:3]) and "--no-index" not in rest:
        is_pip = program in ("pip", "pip3") or (program.startswith("python") and "pip" in names)
        return "reaches for a package index" if is_pip else ""
    return ""


def events(step: int, ran: Ran, known_tests: Collection[str]) -> list[Event]:
    """What a command did, but for what it changed: looks, searches, at most one test run, else a plain command."""
    parts = _parts(ran.command)
    found = [event for part in parts for event in _of_part(step, part, ran)]
    if any(_is_runner(part) for part in parts):
        is_clean = all(_is_runner(part) or part[0] in QUIET for part in parts)
        found.append(Event(step=step, kind="test", failing=failing(ran.output, known_tests) if is_clean else None))
    if why_forbidden(ran.command):
        found.append(Event(step=step, kind="command", is_forbidden=True))
    return found or [Event(step=step, kind="command")]


def failing(output: str, known: Collection[str]) -> frozenset[str] | None:
    """The tests that an output says have failed, under the names that are known; None if no test ran."""
    names = {name.strip() for name in (*_FAILED.findall(output), *_UNITTEST.findall(output))}
    counts = {word.removesuffix("s"): int(number) for number, word in _COUNTS.findall(output)}
    if not names and not counts and not any(int(number) for number in _RAN.findall(output)):
        return None
    if not names and (counts.get("failed") or counts.get("error") or "FAILED (" in output):
        return frozenset({"?"})
    return frozenset(_known_as(name, known) for name in names)


def _known_as(name: str, known: Collection[str]) -> str:
    """A test's name as the task writes it: paths may be relative to another folder."""
    for other in known:
        if name == other or name.endswith("/" + other) or other.endswith("/" + name):
            return other
        if "::" not in name and other.removesuffix(".py").replace(".py::", ".").replace("::", ".").endswith(name):
            return other
    return name


def _parts(command: str) -> list[list[str]]:
    """The words of each plain command in a line."""
    found: list[list[str]] = []
    for text in _pieces(command[:LONGEST]):
        if not text.strip() or len(found) >= MOST_PARTS:
            continue
        try:
            words = shlex.split(text)
        except ValueError:
            words = text.split()
        words = [word for word in dropwhile(_ASSIGNMENT.match, words) if not _REDIRECTION.match(word)]
        if words:
            found.append(words)
    return found


def _pieces(command: str) -> list[str]:
    """Cut at separators that no quotes hold."""
    pieces, start, quote = [], 0, ""
    at = 0
    while at < len(command):
        letter = command[at]
        if letter == "\\" and quote != "'":
            at += 1
        elif quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif (match := _PARTS.match(command, at)) is not None:
            pieces.append(command[start:at])
            start = match.end()
            at = match.end() - 1
        at += 1
    return [*pieces, command[start:]]


def _is_runner(words: Sequence[str]) -> bool:
    """Whether a command runs tests."""
    program = words[0].rpartition("/")[2]
    if program in ("pytest", "py.test"):
        return True
    return program.startswith("python") and any(
        one == "-m" and two in ("pytest", "unittest") for one, two in pairwise(words)
    )


def _of_part(step: int, words: Sequence[str], ran: Ran) -> list[Event]:
    program = words[0].rpartition("/")[2]
    names = [word for word in words[1:] if not word.startswith("-")]
    if program == "git" and words[1:2] == ["grep"]:
        program, names = "grep", names[1:]
    if program in SEARCHES:
        return _hits(step, names[1:], ran)
    if program in LOOKS and not (program == "sed" and any(word.startswith("-i") for word in words)):
        span = next((match for word in names if (match := _SPAN.match(word))), None)
        first, last = (int(span[1]), int(span[2] or span[1])) if span else (0, 0)
        files = names[1:] if program in ("sed", "awk") else [name for name in names if not name.isdecimal()]
        return [_look(step, "look", ran.cwd, name, first, last) for name in files]
    return []


def _hits(step: int, files: Sequence[str], ran: Ran) -> list[Event]:
    """The places that a search has shown."""
    found = [_look(step, "search", ran.cwd, name, int(line), int(line)) for name, line in _HIT.findall(ran.output)[:50]]
    if len(files) == 1 and not found:
        lines = [int(line) for line in _LONE_HIT.findall(ran.output)[:50]] or [0]
        return [_look(step, "search", ran.cwd, files[0], line, line) for line in lines if ran.exit_code == 0]
    return found


def _look(step: int, kind: EventKind, cwd: str, name: str, first: int, last: int) -> Event:
    return Event(step=step, kind=kind, path=below_work(name, cwd), first_line=first, last_line=last)


def below_work(name: str, cwd: str = "/work") -> str:
    """A path as the task names files: relative to `/work` where it lies below."""
    parts: list[str] = []
    for part in (name if name.startswith("/") else f"{cwd}/{name}").split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts[1:]) if parts[:1] == ["work"] else "/" + "/".join(parts)
