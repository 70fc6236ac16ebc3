"""What the tests see of the tested code under the grade `separate`: stand-ins that ask its process.

`from solution import add; assert add(1, 2) == 3` works as it stands: `add` sends its arguments, and what
comes back is a value of an exact built-in type, compared here. An instance of the agent's class is a
stand-in whose attributes, methods, length and items are asked for.

Decisions: a stand-in is never equal to a plain value, and two of them are equal only if they are one object;
comparing two others, ordering them, `in`, arithmetic with a plain value (`abs(f(x) - 0.3) < 1e-9` would let the
other side decide) or handing over a function of the tests raises `NotProvable`: the test fails and says why.
Exceptions arrive as the nearest built-in class, or as a class made here under the agent's name; what is not an
`Exception` (but `SystemExit`) arrives as `SubjectError`, so that no skip or exit of pytest's comes from there.
Changes to a list, dict or set that was handed over come back. Not covered: what the code prints.
"""

import builtins
import importlib.abc
import importlib.machinery
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from burnish.rewards.code_tests_clock import Deadline
from burnish.rewards.code_tests_codec import BadMessage, Handle, decode, encode, receive, send

SPECIAL: Final = (
    "len getitem setitem delitem iter next str repr bool int float enter exit hash index neg pos abs invert".split()
)
ARITHMETIC: Final = "add sub mul truediv floordiv mod pow matmul and or xor".split()
LONGEST_CHAIN: Final = 20
ORDERINGS: Final = ("__lt__", "__le__", "__gt__", "__ge__")


class SubjectError(Exception):
    """The tested code's process died, hung, or answered with what is no value."""


class NotProvable(Exception):
    """A test does what only `trust = "same_interpreter"` can judge."""


class Subject:
    """The tested process: started when first asked, replaced when it dies or hangs."""

    def __init__(self, nursery: socket.socket, word: bytes, cpu_s: float, wall_s: float) -> None:
        self._nursery, self._word = nursery, word
        self._cpu_s, self._wall_s = cpu_s, wall_s
        self._link: socket.socket | None = None
        self._pid = 0
        self.life = 0

    def ask(self, request: Mapping[str, object]) -> Any:
        """Send a request and wait for its answer, at most so long."""
        link = self._link or self._start()
        deadline = Deadline(self._pid, self._cpu_s, self._wall_s)
        try:
            send(link, request)
            return receive(link, lambda: _wait(link, deadline))
        except (OSError, EOFError, BadMessage, TimeoutError) as error:
            self.stop()
            raise SubjectError(f"the tested code's process: {type(error).__name__} {error}") from None

    def stop(self) -> None:
        """Kill the process, if there is one."""
        if self._link is not None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            self._link.close()
            self._link = None
            self.life += 1

    def _start(self) -> socket.socket:
        self._nursery.send(self._word)
        ready, _, _ = select.select([self._nursery], [], [], self._wall_s)
        message, fds, _, _ = socket.recv_fds(self._nursery, 64, 1) if ready else (b"", [], 0, 0)
        if not fds:
            raise SubjectError("no process for the tested code could be started")
        self._pid, self._link = int(message), socket.socket(fileno=fds[0])
        return self._link


def _wait(link: socket.socket, deadline: Deadline) -> None:
    while not select.select([link], [], [], deadline.look_again_s)[0]:
        deadline.check()


class Client:
    """Turns stand-ins into requests and answers into values."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self._exceptions: dict[tuple[str, ...], type[Exception] | type[SystemExit]] = {}

    def ask(self, do: str, arguments: Sequence[object] = (), named: Mapping[str, object] | None = None, **rest: object):
        """Ask, put changes back into what was handed over, and give the value or raise."""
        sent = [encode(one, self._number) for one in arguments]
        request = {"do": do, "arguments": sent, "named": {k: encode(v, self._number) for k, v in (named or {}).items()}}
        reply = self.subject.ask(request | rest)
        try:
            if "raised" in reply:
                _, _, name, chain = reply["raised"]
                error = self._error(str(name), tuple(map(str, chain)), str(reply["text"]))
            else:
                self._put_back(arguments, reply["arguments"])
                return self.take(reply["value"])
        except (BadMessage, KeyError, TypeError, ValueError, RecursionError):
            self.subject.stop()
            raise SubjectError("the tested code's process answered with what is no value") from None
        raise error

    def take(self, data: object) -> Any:
        """Make a value of what came over the wire."""
        return decode(data, self._stand_in)

    def _stand_in(self, handle: Handle) -> object:
        if handle.kind == "exception":
            return self._exception(handle.chain)
        return Remote(self, handle)

    def _number(self, value: object) -> Handle:
        if isinstance(value, Remote):
            return value._handle_now()  # pyright: ignore[reportPrivateUsage] - any public name may be the code's
        raise NotProvable(f"a {type(value).__name__} of the tests cannot be handed to the tested code's process")

    def _put_back(self, arguments: Sequence[Any], changed: Sequence[Any]) -> None:
        for ours, data in zip(arguments, changed, strict=True):
            theirs = self.take(data)
            if theirs is None or type(theirs) is not type(ours) or theirs == ours:
                continue
            ours.clear()
            ours.extend(theirs) if isinstance(ours, list) else ours.update(theirs)

    def _error(self, name: str, chain: tuple[str, ...], text: str) -> BaseException:
        kind = self._exception(chain)
        try:
            return kind(text)
        except TypeError:  # such as UnicodeDecodeError, which wants five arguments
            return SubjectError(f"{name}: {text}")

    def _exception(self, chain: tuple[str, ...]) -> type[Exception] | type[SystemExit]:
        """The class under the first name: the built-in one, or one made here below the class of the next name."""
        if not chain or len(chain) > LONGEST_CHAIN:
            return SubjectError
        module, _, name = chain[0].rpartition(":")
        built_in = vars(builtins).get(name) if module == "builtins" else None
        if isinstance(built_in, type):
            return built_in if issubclass(built_in, Exception | SystemExit) else SubjectError
        if chain not in self._exceptions:
            made: Any = type(name, (self._exception(chain[1:]),), {})
            self._exceptions[chain] = made
        return self._exceptions[chain]


class Remote:
    """One value of the tested process. `_path` names it again after the process was replaced."""

    _client: Client
    _handle: Handle
    _life: int
    _path: tuple[str, tuple[str, ...]] | None

    def __init__(self, client: Client, handle: Handle) -> None:
        for name, value in (("_client", client), ("_handle", handle), ("_path", None), ("_life", client.subject.life)):
            object.__setattr__(self, name, value)

    def _handle_now(self) -> Handle:
        if self._life != self._client.subject.life:
            if self._path is None:
                raise SubjectError("the tested code's process died, and this object with it")
            found = find(self._client, *self._path)
            object.__setattr__(self, "_handle", found._handle)
            object.__setattr__(self, "_life", found._life)
        return self._handle

    def _ask(self, do: str, *arguments: object, **rest: Any) -> Any:
        return self._client.ask(do, arguments, of=self._handle_now().number, **rest)

    def __getattr__(self, name: str) -> Any:
        return self._ask("get", name=name)

    def __setattr__(self, name: str, value: object) -> None:
        self._ask("set", value, name=name)

    def __call__(self, *arguments: object, **named: object) -> Any:
        """Call it over there."""
        return self._ask("call", *arguments, named=named)

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, Remote) and bool(instance._ask("isinstance", self))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Remote):
            return False
        if self._handle_now().number == other._handle_now().number:
            return True
        raise NotProvable("two objects of the tested code are compared, and only it can say whether they are equal")


def _special(name: str) -> Callable[..., Any]:
    def ask(self: Remote, *arguments: object) -> Any:
        value = self._ask("special", *arguments, name=name)  # pyright: ignore[reportPrivateUsage] - likewise
        return self if value is None and name == "__enter__" else value

    return ask


def _ordering(self: Remote, other: object) -> bool:
    raise NotProvable("an object of the tested code is put in order, and only it can say which")


def _arithmetic(name: str) -> Callable[..., Any]:
    ask = _special(name)

    def compute(self: Remote, other: object) -> Any:
        if not isinstance(other, Remote):
            raise NotProvable(f"{name} of an object of the tested code and a {type(other).__name__} of the tests")
        return ask(self, other)

    return compute


def _contains(self: Remote, other: object) -> bool:
    raise NotProvable("only the object of the tested code can say what is in it")


for _name in SPECIAL:
    setattr(Remote, f"__{_name}__", _special(f"__{_name}__"))
for _name in ARITHMETIC:
    setattr(Remote, f"__{_name}__", _arithmetic(f"__{_name}__"))
    setattr(Remote, f"__r{_name}__", _arithmetic(f"__r{_name}__"))
for _name in ORDERINGS:
    setattr(Remote, _name, _ordering)
setattr(Remote, "__contains__", _contains)  # noqa: B010 - as the others: looked up on the class


def find(client: Client, module: str, names: tuple[str, ...]) -> Any:
    """Fetch an attribute of a module; a function or class keeps its path."""
    value = client.ask("find", module=module, names=list(names))
    if isinstance(value, Remote):
        object.__setattr__(value, "_path", (module, names))
    return value


class RemoteModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the tested modules as stand-ins: each attribute is asked for when it is used."""

    def __init__(self, client: Client, names: Sequence[str]) -> None:
        self._client, self._names = client, frozenset(names)

    def find_spec(self, fullname: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        """Answer for the tested names and all that lies below them."""
        if fullname.partition(".")[0] not in self._names:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def exec_module(self, module: Any) -> None:
        """Import it over there, so that an import error shows here."""
        client, name = self._client, module.__name__
        client.ask("find", module=name, names=[])

        def look_up(attribute: str) -> Any:
            if attribute.startswith("__") or f"{name}.{attribute}" in sys.modules:
                raise AttributeError(attribute)
            return find(client, name, (attribute,))

        module.__getattr__ = look_up
