"""Every fault that one file can have, in the order of its text: the same list for the same text."""

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from burnish.data.mutations.edits import Edit, Mutation, Text, apply
from burnish.data.mutations.operators import OPERATORS, Scope

Function = ast.FunctionDef | ast.AsyncFunctionDef
SURE = ("comparison", "off_by_one", "wrong_variable")
"""Kinds whose mutants cannot but parse and mean something else: most of all, and not worth parsing each."""


def mutations(source: str, kinds: Collection[str] = tuple(OPERATORS), *, is_sure: bool = True) -> list[Mutation]:
    """List the faults of these kinds; each, applied, gives a file that parses and means something else.

    Without `is_sure`, a few do not: for a caller that looks at those it draws, since it is far quicker.

    Raises:
        SyntaxError: if the source does not parse.
    """
    tree, text = ast.parse(source), Text(source)
    found = [
        each for name, function in _functions(tree, "") for each in _of_function(name, function, text, kinds, is_sure)
    ]
    return sorted(found, key=lambda each: (each.edits[0].start, each.kind, each.edits[0].after))


def _of_function(
    name: str, function: Function, text: Text, kinds: Collection[str], is_sure: bool
) -> Iterator[Mutation]:
    scope, segment = _scope(function), _Segment(function, text) if is_sure else None
    for node in _own_nodes(function):
        for kind in kinds:
            for edits in OPERATORS[kind](node, text, scope):
                if segment is None or kind in SURE or segment.means_something_else(edits):
                    yield Mutation(kind=kind, function=name, line=text.line(edits[0].start), edits=edits)


class _Segment:
    """A function's own lines, which parse alone: far quicker than the whole file for each fault."""

    def __init__(self, function: Function, text: Text) -> None:
        start, end = text.span(function)
        self._start, self._end = start - function.col_offset, end
        self._head = "if 1:\n" if function.col_offset else ""
        self._text = text.between(self._start, end)
        self._plain = ast.dump(ast.parse(self._head + self._text))

    def means_something_else(self, edits: Sequence[Edit]) -> bool:
        """Whether the function with the edits parses, and not to what it was."""
        here = [replace(edit, start=edit.start - self._start, end=edit.end - self._start) for edit in edits]
        try:
            return ast.dump(ast.parse(self._head + apply(self._text, here))) != self._plain
        except (SyntaxError, ValueError):
            return False


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield f"{prefix}{child.name}", child
            yield from _functions(child, f"{prefix}{child.name}.<locals>.")
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")
        else:
            yield from _functions(child, prefix)


def _own_nodes(function: Function) -> Iterator[ast.AST]:
    """The function and what is in its body, less what inner functions and classes hold, and less any docstring."""
    yield function
    pending: list[ast.AST] = list(function.body)
    while pending:
        node = pending.pop()
        if isinstance(node, Function | ast.ClassDef | ast.JoinedStr):
            continue  # inside an f-string, positions are not those of the file before Python 3.12
        yield node
        pending += ast.iter_child_nodes(node)


def _scope(function: Function) -> Scope:
    arguments = function.args
    names = [arg.arg for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    stored = [
        node.id for node in _own_nodes(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]
    return Scope(names=tuple(dict.fromkeys(name for name in names + sorted(stored) if name not in ("self", "cls"))))
