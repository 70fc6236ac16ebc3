"""Which variable each name in a program means, as a number that does not depend on what it is called.

`placeholders` maps nodes (by `id`) to `SCOPE.NUMBER`, both counted in the order of the text. Two programs whose
trees agree after this substitution bind and read the same variables in the same places, so one is the other with its
locals renamed. Functions, imports, globals and builtins keep their names.

Decisions: scopes are found here and then compared with the interpreter's own (`symtable`); where the two disagree
there are no placeholders. Only for programs of which `code_facts` says that names may change.
"""

import ast
import symtable
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from burnish.rewards.code_facts import COMPREHENSIONS


@dataclass(slots=True)
class _Scope:
    number: int
    parent: "_Scope | None"
    line: int
    bound: set[str] = field(default_factory=set[str])
    kept: set[str] = field(default_factory=set[str])
    numbers: dict[str, int] = field(default_factory=dict[str, int])

    def owner(self, name: str) -> "_Scope | None":
        """The function scope that a name belongs to; None for globals and builtins."""
        scope: _Scope | None = self
        while scope is not None and name not in scope.bound:
            scope = scope.parent
        return scope


@dataclass(slots=True)
class _Walk:
    """The scopes met so far, and every occurrence of a name in the order of the text."""

    scopes: list[_Scope] = field(default_factory=list[_Scope])
    seen: list[tuple[ast.AST, str, _Scope | None]] = field(default_factory=list[tuple[ast.AST, str, "_Scope | None"]])

    def open(self, parent: _Scope | None, line: int) -> _Scope:
        scope = _Scope(len(self.scopes), parent, line)
        self.scopes.append(scope)
        return scope


def placeholders(tree: ast.Module, source: str, *, rename_parameters: bool) -> dict[int, str] | None:
    """A placeholder for each name of a local variable; None where the interpreter sees other scopes than we do."""
    walk = _Walk()
    for statement in tree.body:
        _visit(statement, None, walk, rename_parameters)
    if Counter((scope.line, frozenset(scope.bound)) for scope in walk.scopes) != Counter(_interpreters(source)):
        return None
    return dict(_numbered(walk))


def _numbered(walk: _Walk) -> Iterator[tuple[int, str]]:
    for node, name, scope in walk.seen:
        owner = scope.owner(name) if scope is not None else None
        if owner is not None and name not in owner.kept:
            number = owner.numbers.setdefault(name, len(owner.numbers))
            yield id(node), f"{owner.number}.{number}"


def _visit(node: ast.AST, scope: _Scope | None, walk: _Walk, renames: bool) -> None:
    match node:
        case ast.FunctionDef():
            _bind(scope, [node.name], kept=True)
            _visit_all([*_outside(node.args), node.returns], scope, walk, renames)
            inner = walk.open(scope, node.lineno)
            _parameters(node.args, inner, walk, renames)
            _visit_all(node.body, inner, walk, renames)
        case ast.Lambda():
            _visit_all(_outside(node.args), scope, walk, renames)
            inner = walk.open(scope, node.lineno)
            _parameters(node.args, inner, walk, renames)
            _visit(node.body, inner, walk, renames)
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            _comprehension(node, scope, walk, renames)
        case ast.Import() | ast.ImportFrom():
            _bind(scope, [alias.asname or alias.name for alias in node.names], kept=True)
        case ast.Name():
            if isinstance(node.ctx, ast.Store):
                _bind(scope, [node.id], kept=False)
            walk.seen.append((node, node.id, scope))
        case _:
            _visit_all(ast.iter_child_nodes(node), scope, walk, renames)


def _visit_all(nodes: Iterable[ast.AST | None], scope: _Scope | None, walk: _Walk, renames: bool) -> None:
    for node in nodes:
        if node is not None:
            _visit(node, scope, walk, renames)


def _outside(arguments: ast.arguments) -> list[ast.AST | None]:
    """Defaults and annotations: evaluated where the function is made."""
    return [*arguments.defaults, *arguments.kw_defaults, *(one.annotation for one in _all(arguments))]


def _all(arguments: ast.arguments) -> list[ast.arg]:
    starred = [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *starred]


def _parameters(arguments: ast.arguments, scope: _Scope, walk: _Walk, renames: bool) -> None:
    for one in _all(arguments):
        _bind(scope, [one.arg], kept=not renames or one in arguments.kwonlyargs)
        walk.seen.append((one, one.arg, scope))


def _comprehension(
    node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp, scope: _Scope | None, walk: _Walk, renames: bool
) -> None:
    """The first iterable belongs to the scope around it."""
    assert isinstance(node, COMPREHENSIONS)
    _visit(node.generators[0].iter, scope, walk, renames)
    inner = walk.open(scope, node.lineno)
    for number, generator in enumerate(node.generators):
        _visit_all([generator.target, generator.iter if number else None, *generator.ifs], inner, walk, renames)
    values = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
    _visit_all(values, inner, walk, renames)


def _bind(scope: _Scope | None, names: list[str], *, kept: bool) -> None:
    if scope is not None:
        scope.bound.update(names)
        if kept:
            scope.kept.update(names)


def _interpreters(source: str) -> Iterator[tuple[int, frozenset[str]]]:
    """The interpreter's own view: each function-like scope, by its line, with its local names."""
    waiting = [symtable.symtable(source, "<reply>", "exec")]
    while waiting:
        table = waiting.pop()
        waiting += table.get_children()
        if isinstance(table, symtable.Function):
            symbols = [symbol for symbol in table.get_symbols() if not symbol.get_name().startswith(".")]
            yield table.get_lineno(), frozenset(symbol.get_name() for symbol in symbols if symbol.is_local())
