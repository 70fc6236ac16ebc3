"""Under the grade `same_interpreter`: is the machinery still what it was before the tested code came in?

`Watch` keeps the objects themselves, so that nothing can take the place of a freed one: functions, classes
and what they are made of, in `builtins`, `unittest`, pytest and its plugins, and the hooks' lists.

This raises the bar; it is no proof. Code in the same interpreter can change what it likes and put it back before
the look, or change this very check.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter, is_
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Final

WATCHED: Final = (
    "builtins", "operator", "math", "json", "_pytest.config", "_pytest.fixtures", "_pytest.main", "_pytest.nodes",
    "_pytest.outcomes", "_pytest.python", "_pytest.python_api", "_pytest.raises", "_pytest.reports", "_pytest.runner",
    "_pytest.skipping", "_pytest.unittest", "pluggy._callers", "pluggy._hooks", "pluggy._manager", "pluggy._execution",
    "pluggy._caller", "unittest.case", "unittest.loader", "unittest.result", "unittest.suite", "unittest.util",
)  # fmt: skip
KEPT: Final = (FunctionType, BuiltinFunctionType, type, classmethod, staticmethod, property)


class Watch:
    """What the machinery was made of when this was made."""

    def __init__(self, hooks: Iterable[Any] = ()) -> None:
        self._places: list[tuple[str, Callable[[str], object], tuple[str, ...], tuple[object, ...]]] = []
        functions: list[FunctionType] = []
        for name, module in [*((one, sys.modules.get(one)) for one in WATCHED), *_hidden.items()]:
            if module is not None:
                self._keep(name, vars(module), functions)
        self._functions = tuple(functions)
        self._codes, self._defaults = tuple(map(_code, functions)), tuple(map(_defaults, functions))
        self._hooks = [(hook, [one.function for one in hook.get_hookimpls()]) for hook in hooks]

    def changed(self) -> str:
        """Name one thing that is no longer what it was; empty if none is."""
        for name, look_up, keys, values in self._places:
            if not all(map(is_, map(look_up, keys), values)):
                return next(f"{name}.{key}" for key, one in zip(keys, values, strict=True) if look_up(key) is not one)
        for part, kept in ((_code, self._codes), (_defaults, self._defaults)):
            if not all(map(is_, map(part, self._functions), kept)):
                return "the code of a function of the runner's"
        for hook, functions in self._hooks:
            if [one.function for one in hook.get_hookimpls()] != functions:
                return f"the hook {hook.name}"
        return "sys.settrace or sys.setprofile" if sys.gettrace() or sys.getprofile() else ""

    def _keep(self, name: str, place: Mapping[str, Any], functions: list[FunctionType]) -> None:
        kept = {key: value for key, value in place.items() if isinstance(value, KEPT)}
        self._places.append((name, place.get, tuple(kept), tuple(kept.values())))
        for key, value in kept.items():
            if isinstance(value, FunctionType):
                functions.append(value)
            elif isinstance(value, type) and value.__module__ == name and name != "builtins":
                self._keep(f"{name}.{key}", vars(value), functions)


def hide_ourselves() -> None:
    """Take our own modules out of `sys.modules`, where the tested code would look first; they stay watched."""
    for name in [one for one in sys.modules if one.partition(".")[0] == "burnish"]:
        _hidden[name] = sys.modules.pop(name)


_code: Final = attrgetter("__code__")
_defaults: Final = attrgetter("__defaults__")
_hidden: Final[dict[str, ModuleType]] = {}
