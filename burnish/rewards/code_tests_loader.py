"""The hidden tests as modules out of memory: no file of a test is ever where the tested code could read it.

Asserts are rewritten so that `==` between a plain value and an object of the tested code's making is
decided by the plain value's own type (`equal` below): an `__eq__` that always agrees, or an `int` that lies, is
then no way to pass. pytest's own rewriting is off.

Covered: test modules, their packages, conftest modules (global, wherever they lie), helper modules.
Not covered: equality inside libraries (`unittest.mock`, `numpy.testing`), chained comparisons.
"""

import ast
import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from types import CodeType
from typing import Any, Final

PLAIN: Final = (type(None), bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset)
CONTAINERS: Final = (list, tuple, dict, set, frozenset)
TRUSTED_PLACES: Final = tuple(
    {folder for folder in (sys.prefix, sys.base_prefix, "/python", "/site") if folder != "/usr"}
)
EQUAL: Final = "__burnish_equal__"
CHECK: Final = "__burnish_check__"


def equal(left: Any, right: Any) -> Any:
    """Compare; where one side is plain and the other is of the tested code's making, the plain side decides."""
    if type(left) in PLAIN and type(right) in PLAIN:
        return _equal_plain(left, right)
    if type(left) in PLAIN and _is_foreign(type(right)):
        return _plain_decides(left, right)
    if type(right) in PLAIN and _is_foreign(type(left)):
        return _plain_decides(right, left)
    return left == right


def _equal_plain(left: Any, right: Any) -> bool:
    if type(left) is not type(right) or type(left) not in CONTAINERS:
        return bool(left == right)
    if isinstance(left, dict):
        return len(left) == len(right) and all(key in right and equal(one, right[key]) for key, one in left.items())
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(bool(equal(a, b)) for a, b in zip(left, right, strict=True))
    return all(not _is_foreign(type(one)) for one in (*left, *right)) and left == right


def _plain_decides(plain: Any, other: Any) -> bool:
    kind: Any = type(plain)
    return kind.__eq__(plain, other) is True


def _is_foreign(kind: type) -> bool:
    """Whether a class comes neither from the standard library nor from what is installed."""
    if not kind.__flags__ & 1 << 9:  # Py_TPFLAGS_HEAPTYPE: made by no `class` statement
        return False
    module = sys.modules.get(kind.__module__)
    place = getattr(getattr(module, "__spec__", None), "origin", None) or ""
    owner: Any = module
    for name in kind.__qualname__.split("."):
        owner = getattr(owner, "__dict__", {}).get(name)
    return owner is not kind or not (place in ("built-in", "frozen") or place.startswith(TRUSTED_PLACES))


def check_equal(left: Any, right: Any) -> None:
    """`assert left == right`, with both in the message."""
    __tracebackhide__ = True
    if not equal(left, right):
        raise AssertionError(f"{_brief(left)} == {_brief(right)}")


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


class _Hardened(ast.NodeTransformer):
    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        test = node.test
        if node.msg is None and isinstance(test, ast.Compare) and [type(op) for op in test.ops] == [ast.Eq]:
            sides = [self.visit(test.left), self.visit(test.comparators[0])]
            return ast.copy_location(ast.Expr(ast.Call(ast.Name(CHECK, ast.Load()), sides, [])), node)
        if node.msg is None:
            node.msg = ast.Constant(ast.unparse(test)[:200])
        self.generic_visit(node)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if len(node.ops) != 1 or not isinstance(node.ops[0], ast.Eq | ast.NotEq):
            return node
        call: ast.expr = ast.Call(ast.Name(EQUAL, ast.Load()), [node.left, node.comparators[0]], [])
        if isinstance(node.ops[0], ast.NotEq):
            call = ast.UnaryOp(ast.Not(), call)
        return ast.copy_location(call, node)


def compile_tests(sources: Mapping[str, str]) -> dict[str, CodeType]:
    """Compile each test file, hardened; `SyntaxError` is the task's fault."""
    codes: dict[str, CodeType] = {}
    for name, source in sources.items():
        tree = ast.fix_missing_locations(_Hardened().visit(ast.parse(source, name)))
        codes[name] = compile(tree, name, "exec", dont_inherit=True)
    return codes


def module_name(file: str) -> str:
    """The dotted name under which a test file is imported."""
    parts = PurePosixPath(file).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


class TestModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports test files out of memory, before anything of the same name in the tree."""

    __test__ = False  # no class of tests, whatever pytest thinks of its name

    def __init__(self, codes: Mapping[str, CodeType], folder: str) -> None:
        self._folder = folder
        self._files = {module_name(file): (file, code) for file, code in codes.items()}
        parents = {str(parent) for file in codes for parent in PurePosixPath(file).parents if str(parent) != "."}
        self._packages = {parent.replace("/", ".") for parent in parents}
        for name in self._files:  # a file next to it is also importable by its last name, as with rootdir/conftest
            self._files = {name.rpartition(".")[2]: self._files[name], **self._files}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Answer for the test files and the folders that they lie in."""
        if fullname not in self._files and fullname not in self._packages:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=fullname in self._packages)

    def exec_module(self, module: Any) -> None:
        """Run the module's code."""
        if module.__name__ not in self._files:
            return
        file, code = self._files[module.__name__]
        module.__file__ = os.path.join(self._folder, file)
        module.__dict__[EQUAL], module.__dict__[CHECK] = equal, check_equal
        exec(code, module.__dict__)
