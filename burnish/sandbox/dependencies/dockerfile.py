"""Read the subset of a Dockerfile that needs no container engine: FROM, ARG, ENV, WORKDIR, COPY and RUN.

All else is a `SandboxError` that names the line and says that it needs a container backend; nothing is skipped in
silence, since a build without its EXPOSE or its second FROM would be another build. Variables are expanded as
Docker does, in all but RUN, whose shell does it.

Covered: comments, continued lines, JSON form, quotes, `$X`, `${X}`, `${X:-word}`, `${X:+word}`, `COPY --chown` (left
out with a note: all files of a place belong to its one user). Not covered: several stages, other flags, here-documents,
the `escape` directive.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NoReturn

from burnish.core.errors import SandboxError

Name = Literal["FROM", "ARG", "ENV", "WORKDIR", "COPY", "RUN"]
NAMES: Final[tuple[Name, ...]] = ("FROM", "ARG", "ENV", "WORKDIR", "COPY", "RUN")
VARIABLE: Final = re.compile(r"\$(?:(?P<bare>\w+)|\{(?P<name>\w+)(?:(?P<operator>:[-+])(?P<word>[^{}]*))?\})")
DIRECTIVE: Final = re.compile(r"#\s*(escape|check)\s*=", re.IGNORECASE)
HERE_DOCUMENT: Final = re.compile(r"(?:^|\s)\d*<<-?['\"]?[A-Za-z_]")
FLAG: Final = re.compile(r"--(?P<name>[a-z]+)(?:=(?P<value>\S*))?(?:\s+|$)")
PIECE: Final = re.compile(
    r"""(?P<single>'[^']*')|"(?P<double>(?:\\.|[^"\\])*)"|\\(?P<escaped>.)|(?P<space>\s+)|(?P<plain>(?:\$\{[^{}]*\}|[^'"\\\s])+)"""
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One instruction as it is written, less its flags. `words` is set if it is in JSON form."""

    line: int
    name: Name
    text: str
    words: tuple[str, ...] | None = None
    note: str = ""


def refuse(line: int, what: str, way: str = "") -> NoReturn:
    """Say that a line is beyond this subset."""
    rest = f"; {way}" if way else "; use a backend that runs containers, or a Dockerfile without it"
    raise SandboxError(f"needs a container backend: line {line}: {what}{rest}")


def parse(text: str) -> list[Instruction]:
    """Read a Dockerfile; what it asks for beyond the subset is refused here, before anything is built."""
    found = [_instruction(line, written) for line, written in _logical_lines(text)]
    first = next((each for each in found if each.name != "ARG"), None)
    if first is None or first.name != "FROM":
        raise SandboxError(f"Dockerfile: line {first.line if first else 1}: expected FROM before all but ARG")
    for each in found:
        if each.name == "FROM" and each is not first:
            refuse(each.line, f"FROM {each.text} is a second stage")
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Join continued lines; comments and empty lines within one are dropped, as Docker does."""
    parts: list[str] = []
    start = 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip() if not parts else raw.rstrip()
        if number == 1 and DIRECTIVE.match(line):
            refuse(1, f"the directive {line!r}")
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        start = start if parts else number
        parts.append(line.removesuffix("\\"))
        if not line.endswith("\\"):
            yield start, "".join(parts).strip()
            parts = []
    if parts:
        yield start, "".join(parts).strip()


def _instruction(line: int, written: str) -> Instruction:
    word, *rest = written.split(None, 1)
    name: Name | None = next((each for each in NAMES if each == word.upper()), None)
    text = rest[0].strip() if rest else ""
    if name is None:
        refuse(line, f"{word.upper()} {text[:60]}".strip(), f"this host alone does {', '.join(NAMES)}")
    if not text:
        raise SandboxError(f"Dockerfile: line {line}: {name} has no argument")
    if name in ("COPY", "RUN") and HERE_DOCUMENT.search(text):
        refuse(line, f"{name} with a here-document", "write the lines to a file of the context")
    note = ""
    while (flag := FLAG.match(text)) is not None and name in ("FROM", "COPY", "RUN"):
        if name != "COPY" or flag["name"] != "chown":
            refuse(line, f"{name} --{flag['name']}")
        note = f"line {line}: --chown={flag['value']} has no effect; all files of a place belong to its one user"
        text = text[flag.end() :].strip()
    return Instruction(line=line, name=name, text=text, words=_json_form(name, text), note=note)


def _json_form(name: Name, text: str) -> tuple[str, ...] | None:
    if name not in ("COPY", "RUN") or not text.startswith("["):
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None  # a shell's `[ -f x ]`, as Docker takes it
    return tuple(found) if isinstance(found, list) and found and all(isinstance(each, str) for each in found) else None


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Put variables in; what is not set is empty."""

    def value(match: re.Match[str]) -> str:
        own = variables.get(match["bare"] or match["name"], "")
        if match["operator"] == ":-":
            return own or expand(match["word"], variables)
        if match["operator"] == ":+":
            return expand(match["word"], variables) if own else ""
        return own

    return VARIABLE.sub(value, text)


def split(text: str, variables: Mapping[str, str], line: int) -> list[str]:
    """Cut into words at spaces outside of quotes, with variables expanded and quotes taken away."""
    words: list[str] = []
    word: str | None = None
    at = 0
    while at < len(text):
        piece = PIECE.match(text, at)
        if piece is None:
            raise SandboxError(f"Dockerfile: line {line}: a quote or backslash without its other half in {text!r}")
        at = piece.end()
        if piece["space"] is None:
            word = (word or "") + _unquoted(piece, variables)
        elif word is not None:
            words.append(word)
            word = None
    return words if word is None else [*words, word]


def _unquoted(piece: re.Match[str], variables: Mapping[str, str]) -> str:
    if piece["single"] is not None:
        return piece["single"][1:-1]
    if piece["escaped"] is not None:
        return piece["escaped"]
    if piece["double"] is not None:
        parts = re.split(r"\\([\"\\$])", piece["double"])
        return "".join(part if number % 2 else expand(part, variables) for number, part in enumerate(parts))
    return expand(piece["plain"], variables)


def pairs(instruction: Instruction, variables: Mapping[str, str]) -> dict[str, str]:
    """Read the `name=value` of an ENV, or its old form `name value`."""
    text = instruction.text
    if re.match(r"\w+\s+[^=\s]", text) and "=" not in text.split()[0]:
        name, _, value = text.partition(" ")
        return {name: " ".join(split(value.strip(), variables, instruction.line))}
    found = [word.partition("=") for word in split(text, variables, instruction.line)]
    bad = [name for name, sign, _ in found if not sign or not re.fullmatch(r"\w+", name)]
    if bad:
        raise SandboxError(f"Dockerfile: line {instruction.line}: ENV {bad[0]!r}: expected name=value")
    return {name: value for name, _, value in found}
