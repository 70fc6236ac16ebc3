"""The tested code's process under the grade `separate`: it answers requests, and knows no test.

The nursery is forked before the tests are read, so that no page of a subject ever held them. It forks a
subject for each word that it gets and hands back a socket to it. A subject imports the agent's code and
does what it is asked: get, call, set. It may lie about a value; it cannot know which value is wanted.
"""

import importlib
import os
import resource
import signal
import socket
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from burnish.rewards.code_tests_codec import Handle, decode, encode, receive, send
from burnish.rewards.code_tests_place import be_traceable, be_untraceable, silence, use_tree

MUTABLE: Final = (list, dict, set)


def start_nursery(keep_closed: Sequence[int]) -> socket.socket:
    """Fork the nursery; `keep_closed` are descriptors that must not reach it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork():
        theirs.close()
        return ours
    ours.close()
    silence(keep_closed)
    be_untraceable()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while word := theirs.recv(1 << 16):
        _fork_subject(theirs, word)
    os._exit(0)


def _fork_subject(nursery: socket.socket, word: bytes) -> None:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with near, far:
        pid = os.fork()
        if pid == 0:
            nursery.close()
            near.close()
            _be_subject(far, word)
        socket.send_fds(nursery, [str(pid).encode()], [near.fileno()])


def _be_subject(link: socket.socket, word: bytes) -> NoReturn:
    roots, _, modules = word.decode().partition("\0")
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    be_traceable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    use_tree(roots.split(":"), modules.split(":"))
    objects: list[object] = []
    try:
        while True:
            send(link, _answer(receive(link), objects))
    except BaseException:  # noqa: BLE001 - whatever the agent's code did to the wire: the end of this process
        os._exit(1)


def _answer(request: Any, objects: list[object]) -> object:
    def keep(value: object) -> Handle:
        objects.append(value)
        return _describe(value, len(objects) - 1)

    try:
        arguments = [decode(one, lambda handle: objects[handle.number]) for one in request.get("arguments", ())]
        named = {name: decode(one, lambda h: objects[h.number]) for name, one in request.get("named", {}).items()}
        value = _do(request, objects, arguments, named)
        changed = [encode(one, keep) if type(one) in MUTABLE else None for one in arguments]
        return {"value": encode(value, keep), "arguments": changed}
    except BaseException as error:  # noqa: BLE001 - the code that runs here is not ours
        return {"raised": list(_describe(type(error), -1)), "text": _text(error)}


def _describe(value: object, number: int) -> Handle:
    if isinstance(value, type):
        is_exception = issubclass(value, BaseException)
        return Handle(
            number, "exception" if is_exception else "class", value.__qualname__, _chain(value) if is_exception else ()
        )
    return Handle(number, "callable" if callable(value) else "object", type(value).__qualname__, ())


def _chain(kind: type) -> tuple[str, ...]:
    return tuple(f"{one.__module__}:{one.__qualname__}" for one in kind.__mro__)


def _do(request: Any, objects: list[object], arguments: list[Any], named: dict[str, Any]) -> object:
    if request["do"] == "find":
        found: Any = importlib.import_module(request["module"])
        for name in request["names"]:
            found = getattr(found, name)
        return found
    target: Any = objects[request["of"]]
    match request["do"]:
        case "get":
            return getattr(target, request["name"])
        case "call":
            return target(*arguments, **named)
        case "special":
            method: Callable[..., object] = getattr(type(target), request["name"])
            return method(target, *arguments)
        case "set":
            return setattr(target, request["name"], arguments[0])
        case _:
            return isinstance(target, arguments[0])


def _text(error: BaseException) -> str:
    try:
        return str(error)[:2000]
    except BaseException:  # noqa: BLE001 - an exception of the agent's own
        return ""
