"""The kinds of faults: for each, which nodes of a function can have it, and what the code says then.

An operator looks at one node and gives the ways in which it can go wrong. Nothing is drawn here; whoever plants
faults draws from what `find.mutations` lists. The kinds follow SWE-smith's procedural modifiers
(https://arxiv.org/abs/2504.21798) and the classic operators of mutation testing (Offutt et al. 1996,
https://doi.org/10.1145/227607.227610).
"""

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from burnish.data.mutations.edits import Edit, Text

Edits = tuple[Edit, ...]

COMPARE: Mapping[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}  # fmt: skip
ARITHMETIC: Mapping[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "+"), ast.Div: ("/", "//"), ast.FloorDiv: ("//", "/"),
    ast.Mod: ("%", "//"), ast.LShift: ("<<", ">>"), ast.RShift: (">>", "<<"), ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
}  # fmt: skip
SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Delete, ast.Raise, ast.Assert)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What an operator may know of the function around a node: its local names, as they are written."""

    names: tuple[str, ...]


Operator = Callable[[ast.AST, Text, Scope], Iterator[Edits]]


def comparison(node: ast.AST, text: Text, scope: Scope) -> Iterator[Edits]:
    """`<` for `<=`, `==` for `!=`, `in` for `not in`, and back."""
    if isinstance(node, ast.Compare):
        for left, op, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            yield from _operator(text, left, right, COMPARE.get(type(op)))


def arithmetic(node: ast.AST, text: Text, scope: Scope) -> Iterator[Edits]:
    """`-` for `+`, `+` for `*`, `//` for `/`, and the like."""
    if isinstance(node, ast.BinOp) and not isinstance(node.left, ast.Constant | ast.JoinedStr):
        yield from _operator(text, node.left, node.right, ARITHMETIC.get(type(node.op)))


def boolean(node: ast.AST, text: Text, scope: Scope) -> Iterator[Edits]:
    """`and` for `or`, and back."""
    if isinstance(node, ast.BoolOp):
        words = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in pairwise(node.values):
            yield from _operator(text, left, right, words)


def off_by_one(node: ast.AST, text: Text, scope: Scope) -> Iterator[Edits]:
    """A whole number that is one more or one less."""
    if isinstance(node, ast.Constant) and type(node.value) is int and text.of(node).isdigit():
        yield (text.replace(node, str(node.value + 1)),)
        if node.value > 0:
            yield (text.replace(node, str(node.value - 1)),)


def condition(node: ast.AST, text: Text, scope: Scope) -> Iterator[Edits]:
    """A test that is the wrong way round."""
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        test = node.test
        negated = (
            text.of(test.operand)
            if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
            else f"not ({text.of(test)})"
        )
        yield (text.replace(test, negated),)


def boundary(node: ast.AST, text: Text, scope: Scope) -> Iterator[Edits]:
    """A bound of `range` or of a slice that is one too far."""
    bounds: list[ast.expr | None] = []
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
        bounds = [*node.args[:2]]
    elif isinstance(node, ast.Slice):
        bounds = [node.lower, node.upper]
    for bound in bounds:
        if bound is not None and not isinstance(bound, ast.Constant | ast.Starred):
            yield (text.replace(bound, f"{_operand(text, bound)} + 1"),)
            yield (text.replace(bound, f"{_operand(text, bound)} - 1"),)


def wrong_variable(node: ast.AST, text: Text, scope: Scope) -> Iterator[Edits]:
    """Another local name of the function where a name is read."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in scope.names:
        for name in scope.names:
            if name != node.id:
                yield (text.replace(node, name),)


def swapped_arguments(node: ast.AST, text: Text, scope: Scope) -> Iterator[Edits]:
    """Two neighbouring arguments of a call in the wrong order."""
    if isinstance(node, ast.Call) and not any(isinstance(each, ast.Starred) for each in node.args):
        yield from _swaps(node.args, text)


def returned_nothing(node: ast.AST, text: Text, scope: Scope) -> Iterator[Edits]:
    """`return None` instead of the value."""
    if isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        yield (text.replace(node.value, "None"),)


def dropped_statement(node: ast.AST, text: Text, scope: Scope) -> Iterator[Edits]:
    """A statement that is not there."""
    for statement in chain.from_iterable(_blocks(node)):
        if isinstance(statement, SIMPLE) and not _is_docstring(statement) and not _is_ellipsis(statement):
            yield (text.replace(statement, "pass"),)


def shuffled_statements(node: ast.AST, text: Text, scope: Scope) -> Iterator[Edits]:
    """Two neighbouring statements in the wrong order."""
    for block in _blocks(node):
        movable = [each for each in block if isinstance(each, SIMPLE) and not _is_docstring(each)]
        neighbours = {id(each): place for place, each in enumerate(block)}
        for one, other in pairwise(movable):
            if neighbours[id(other)] == neighbours[id(one)] + 1:
                yield from _swaps([one, other], text)


def exception_handling(node: ast.AST, text: Text, scope: Scope) -> Iterator[Edits]:
    """A handler that catches something else, or swallows what it should pass on."""
    if not isinstance(node, ast.ExceptHandler):
        return
    if isinstance(node.type, ast.Name):
        other = "KeyError" if node.type.id != "KeyError" else "IndexError"
        yield (text.replace(node.type, other),)
    for statement in node.body:
        if isinstance(statement, ast.Raise):
            yield (text.replace(statement, "pass"),)


def jump(node: ast.AST, text: Text, scope: Scope) -> Iterator[Edits]:
    """`continue` for `break`, and back."""
    if isinstance(node, ast.Break):
        yield (text.replace(node, "continue"),)
    elif isinstance(node, ast.Continue):
        yield (text.replace(node, "break"),)


def removed_body(node: ast.AST, text: Text, scope: Scope) -> Iterator[Edits]:
    """A function that was never written: its signature and docstring are all there is."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        body = node.body[1:] if _is_docstring(node.body[0]) else node.body
        if len(body) > 1:
            start, end = text.span(body[0])[0], text.span(body[-1])[1]
            yield (text.edit(start, end, "raise NotImplementedError"),)


OPERATORS: Mapping[str, Operator] = {
    operator.__name__: operator
    for operator in (
        comparison, arithmetic, boolean, off_by_one, condition, boundary, wrong_variable, swapped_arguments,
        returned_nothing, dropped_statement, shuffled_statements, exception_handling, jump, removed_body,
    )
}  # fmt: skip


def _operator(text: Text, left: ast.expr, right: ast.expr, words: tuple[str, str] | None) -> Iterator[Edits]:
    """Change the word between two operands, where it stands there just once and with no comment beside it."""
    if words is None:
        return
    start, end = text.span(left)[1], text.span(right)[0]
    gap = text.between(start, end)
    if gap.strip(" ()\\\n") == words[0]:
        at = start + len(gap[: gap.index(words[0])].encode())
        yield (text.edit(at, at + len(words[0]), words[1]),)


def _operand(text: Text, node: ast.expr) -> str:
    is_plain = isinstance(node, ast.Name | ast.Call | ast.Attribute | ast.Subscript)
    return text.of(node) if is_plain else f"({text.of(node)})"


def _swaps(nodes: Sequence[ast.expr | ast.stmt], text: Text) -> Iterator[Edits]:
    """Each two neighbours that are not alike, in each other's place."""
    for one, other in pairwise(nodes):
        if ast.dump(one) != ast.dump(other):
            yield (text.replace(one, text.of(other)), text.replace(other, text.of(one)))


def _blocks(node: ast.AST) -> list[list[ast.stmt]]:
    """The blocks of statements that a node holds."""
    blocks = [getattr(node, name, None) for name in ("body", "orelse", "finalbody")]
    return [block for block in blocks if isinstance(block, list)]


def _is_ellipsis(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node.value.value is ...


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
