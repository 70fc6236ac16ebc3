"""Values between the tests' process and the tested one: plain Python values as JSON, the rest as handles.

Decisions: a value crosses only if its type is exactly a built-in one, so that nothing that answers
comparisons in its own way ever sits in the process that compares. Everything else (instances, functions,
classes, an `int` with an `__eq__` of its own) stays where it is and crosses as a number to ask it by.

Covered: None, bool, int, float, str, bytes, complex, list, tuple, set, frozenset, dict (the dicts of
`collections` arrive as plain ones), nested.
Not covered: two places that hold one object; after the crossing they hold equal ones.
"""

import json
import socket
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

LONGEST_MESSAGE: Final = 1 << 20
SCALARS: Final = (type(None), bool, int, float, str)
MAPPINGS: Final = (dict, OrderedDict, defaultdict, Counter)
TAGS: Final = {list: "list", tuple: "tuple", set: "set", frozenset: "frozenset"}
MAKERS: Final[dict[str, Callable[[list[Any]], object]]] = {
    "list": list, "tuple": tuple, "set": set, "frozenset": frozenset,
}  # fmt: skip

Kind = Literal["object", "callable", "class", "exception"]


class Handle(NamedTuple):
    """A value that stays in the tested process."""

    number: int
    kind: Kind
    name: str
    chain: tuple[str, ...]
    """For an exception class: its bases in order, itself first, as `module:name`."""


class BadMessage(Exception):
    """What came over the wire is no value of ours."""


def encode(value: object, handle: Callable[[object], Handle]) -> Any:
    """Write a value as JSON; `handle` gives the number of what does not cross."""
    kind = type(value)
    if kind in SCALARS:
        return value
    if kind in TAGS:
        return {TAGS[kind]: [encode(one, handle) for one in value]}  # type: ignore[attr-defined] # a container, by its exact type
    if isinstance(value, dict) and kind in MAPPINGS:
        return {"dict": [[encode(key, handle), encode(one, handle)] for key, one in dict.items(value)]}
    if isinstance(value, bytes) and kind is bytes:
        return {"bytes": value.hex()}
    if isinstance(value, complex) and kind is complex:
        return {"complex": [value.real, value.imag]}
    return {"handle": handle(value)}


def decode(data: Any, take: Callable[[Handle], object]) -> Any:
    """Read a value; `BadMessage` if it is none."""
    if type(data) in SCALARS:
        return data
    try:
        ((tag, inner),) = data.items()
        if tag in MAKERS:
            return MAKERS[tag]([decode(one, take) for one in inner])
        if tag == "dict":
            return {decode(key, take): decode(one, take) for key, one in inner}
        if tag == "bytes":
            return bytes.fromhex(inner)
        if tag == "complex":
            return complex(*inner)
        number, kind, name, chain = inner
        if tag != "handle" or type(number) is not int or type(name) is not str:
            raise BadMessage(f"tag {tag!r}")
        return take(Handle(number, kind, name, tuple(map(str, chain))))
    except (AttributeError, TypeError, ValueError) as error:
        raise BadMessage(str(error)) from None


def send(link: socket.socket, message: object) -> None:
    """Send one message."""
    text = json.dumps(message).encode()
    link.sendall(len(text).to_bytes(4, "big") + text)


def receive(link: socket.socket, wait: Callable[[], None] = lambda: None) -> Any:
    """Read one message, calling `wait` before each read; `EOFError` if the other side is gone."""
    size = int.from_bytes(_read(link, 4, wait), "big")
    if size > LONGEST_MESSAGE:
        raise BadMessage(f"a message of {size} bytes; at most {LONGEST_MESSAGE}")
    try:
        return json.loads(_read(link, size, wait))
    except (ValueError, RecursionError) as error:
        raise BadMessage(str(error)) from None


def _read(link: socket.socket, size: int, wait: Callable[[], None]) -> bytes:
    parts: list[bytes] = []
    while size:
        wait()
        part = link.recv(min(size, 1 << 16))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
