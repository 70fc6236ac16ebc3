"""Which of the failing tests the agent does not see, and the suite without them.

Decisions: whole test functions are hidden, with all their parameters, since a file shows all of them or none. Half of
the failing functions, rounded up, are hidden where there are two or more; a single one stays, or nothing would be left
to reproduce. A class that has lost all its tests keeps a `pass`.
"""

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from random import Random


def function_of(test_id: str) -> str:
    """A test's function: its id without parameters."""
    return test_id.partition("[")[0]


def hide(failing: Sequence[str], rng: Random) -> frozenset[str]:
    """Draw the functions to hide, as `file::Class::function`."""
    functions = sorted({function_of(name) for name in failing})
    if len(functions) < 2:
        return frozenset()
    return frozenset(rng.sample(functions, (len(functions) + 1) // 2))


def without(tests: Mapping[str, str], hidden: Collection[str]) -> dict[str, str]:
    """The files of a suite that change when functions are hidden, as they are then."""
    files = {name.partition("::")[0] for name in hidden}
    return {file: _cut(tests[file], {tuple(name.split("::")[1:]) for name in hidden if name.startswith(f"{file}::")})
            for file in sorted(files)}  # fmt: skip


def _cut(source: str, names: Collection[tuple[str, ...]]) -> str:
    lines = source.splitlines(keepends=True)
    tree = ast.parse(source)
    for body, function in sorted(_found(tree, names, ()), key=lambda one: -one[1].lineno):
        first = min([function.lineno, *(each.lineno for each in function.decorator_list)]) - 1
        assert function.end_lineno is not None
        is_all = all(isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) for each in body) and all(
            each in [one for _, one in _found(tree, names, ())] for each in body
        )
        filler = f"{' ' * function.col_offset}pass\n" if is_all and function is body[0] else ""
        lines[first : function.end_lineno] = [filler] if filler else []
    return "".join(lines)


def _found(
    node: ast.Module | ast.ClassDef, names: Collection[tuple[str, ...]], prefix: tuple[str, ...]
) -> Iterator[tuple[Sequence[ast.stmt], ast.FunctionDef | ast.AsyncFunctionDef]]:
    """The functions of these names, each with the block that it stands in."""
    for child in node.body:
        if isinstance(child, ast.ClassDef):
            yield from _found(child, names, (*prefix, child.name))
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and (*prefix, child.name) in names:
            yield node.body, child
