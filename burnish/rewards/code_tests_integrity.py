"""Under the grade `same_interpreter`: is the machinery still what it was before the tested code came in?

`Watch` keeps the objects themselves, so that nothing can take the place of a freed one: functions, classes
and what they are made of, in `builtins`, `unittest`, pytest and its plugins, and the hooks' lists.

This raises the bar; it is no proof. Code in the same interpreter can change what it likes and put it back before
the look, or change this very check.
"""

import sys
from collections.abc import Iterable, Mapping
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Final

WATCHED: Final = (
    "builtins", "_pytest", "pytest", "pluggy", "unittest", "burnish", "operator", "math", "functools", "inspect",
    "json", "contextlib", "importlib", "_frozen_importlib", "_frozen_importlib_external",
)  # fmt: skip
KEPT: Final = (FunctionType, BuiltinFunctionType, type, classmethod, staticmethod, property)


class Watch:
    """What the machinery was made of when this was made."""

    def __init__(self, hooks: Iterable[Any] = ()) -> None:
        self._places: list[tuple[str, Mapping[str, Any], dict[str, Any]]] = []
        self._codes: list[tuple[str, FunctionType, tuple[object, ...]]] = []
        seen: set[int] = set()
        for name, module in [*sys.modules.items(), *_hidden.items()]:
            if name.partition(".")[0] in WATCHED and type(module) is ModuleType:
                self._keep(name, vars(module), seen, name.partition(".")[0])
        self._hooks = [(hook, [one.function for one in hook.get_hookimpls()]) for hook in hooks]

    def changed(self) -> str:
        """Name one thing that is no longer what it was; empty if none is."""
        for name, place, kept in self._places:
            for key, value in kept.items():
                if place.get(key, _GONE) is not value:
                    return f"{name}.{key}"
        for name, function, parts in self._codes:
            if any(now is not then for now, then in zip(_parts(function), parts, strict=True)):
                return name
        for hook, functions in self._hooks:
            if [one.function for one in hook.get_hookimpls()] != functions:
                return f"the hook {hook.name}"
        return "sys.settrace or sys.setprofile" if sys.gettrace() or sys.getprofile() else ""

    def _keep(self, name: str, place: Mapping[str, Any], seen: set[int], top: str) -> None:
        kept = {key: value for key, value in place.items() if isinstance(value, KEPT)}
        self._places.append((name, place, kept))
        for key, value in kept.items():
            if id(value) in seen:
                continue
            seen.add(id(value))
            if isinstance(value, FunctionType):
                self._codes.append((f"{name}.{key}", value, _parts(value)))
            elif isinstance(value, type) and value.__module__.partition(".")[0] == top:
                self._keep(f"{name}.{key}", vars(value), seen, top)


def hide_ourselves() -> None:
    """Take our own modules out of `sys.modules`, where the tested code would look first; they stay watched."""
    for name in [one for one in sys.modules if one.partition(".")[0] == "burnish"]:
        _hidden[name] = sys.modules.pop(name)


def _parts(function: FunctionType) -> tuple[object, ...]:
    return function.__code__, function.__defaults__, function.__kwdefaults__


_GONE: Final = object()
_hidden: Final[dict[str, ModuleType]] = {}
