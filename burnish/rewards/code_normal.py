"""One key for Python programs that differ only in what cannot change their result.

`code_key(source, ...)` reads the text with `ast` and `symtable` and runs nothing. It names the coarsest level that is
safe, and equal keys mean equal behaviour to whoever looks only at returned values and at the types of exceptions:
- `raw`: the text itself. Whenever in doubt: it cannot be parsed, is long or deep, or may look at its own text.
- `layout`: the syntax tree. Spacing, comments, docstrings, quotes and ways of writing a number do not count.
- `names`: the same, and local variables by number (`code_scopes`).
- `parameters`: the same, and parameters by number. Asked for by `positional_calls`: whoever calls from outside
  gives arguments by position.

Decisions: what disables a level is listed in `code_facts` and rests on what is allowed (`code_vocabulary`), not on what
is forbidden. Names of functions, classes, imports and globals always count. `raw` where a single line or the nesting is
beyond `LONGEST_LINE` and `DEEPEST`: these bound the time and stack of the parser (at worst 0.1 s of processor time).
Not covered: callers that look at messages of exceptions, at stderr or at line numbers, where locals can be seen; memory
limits so tight that a comment matters.
"""

import ast
import hashlib
import re
import warnings
from typing import Literal, NamedTuple

from burnish.rewards.code_facts import facts_of
from burnish.rewards.code_scopes import placeholders

Level = Literal["raw", "layout", "names", "parameters"]

LONGEST = 8_000
LONGEST_LINE = 400
DEEPEST = 24
MOST_BRANCHES = 200
FILE_NAME = "<burnish: a reply>"

# What the parser warns about (escapes such as "\d") is the reply's affair.
warnings.filterwarnings("ignore", module=re.escape(FILE_NAME))


class CodeKey(NamedTuple):
    """How far a program was normalised, why no further ("" where it could not be), and the key."""

    level: Level
    reason: str
    key: str


def code_key(source: str, *, positional_calls: bool) -> CodeKey:
    """The key of a program at the coarsest level that is safe for it."""
    try:
        return _key(source, positional_calls)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return _raw(source, type(error).__name__)


def _key(source: str, positional_calls: bool) -> CodeKey:
    if why := _too_much(source):
        return _raw(source, why)
    tree = ast.parse(source, FILE_NAME)
    facts = facts_of(tree)
    if facts.opaque:
        return _raw(source, facts.opaque)
    if facts.keeps_names:
        return _made("layout", facts.keeps_names, tree, {})
    why = facts.keeps_parameters if positional_calls else "called by keyword"
    names = placeholders(tree, source, rename_parameters=not why)
    if names is None:
        return _made("layout", "scopes that are not understood", tree, {})
    return _made("names" if why else "parameters", why, tree, names)


def _too_much(source: str) -> str:
    if len(source) > LONGEST:
        return "long"
    if max(map(len, source.splitlines()), default=0) > LONGEST_LINE or "\\\n" in source or "\0" in source:
        return "a long line"
    if source.count("elif") > MOST_BRANCHES:
        return "many branches"
    depth = deepest = 0
    for sign in re.findall(r"[][(){}]", source):
        depth += 1 if sign in "([{" else -1
        deepest = max(deepest, depth)
    return "deep" if deepest > DEEPEST else ""


def _raw(source: str, reason: str) -> CodeKey:
    return CodeKey("raw", reason, _sha256("raw", source))


def _made(level: Level, reason: str, tree: ast.Module, names: dict[int, str]) -> CodeKey:
    lines: list[str] = []
    _write(tree, names, lines)
    return CodeKey(level, reason, _sha256(level, "\n".join(lines)))


def _sha256(level: str, text: str) -> str:
    return f"{level}:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _write(value: object, names: dict[int, str], lines: list[str]) -> None:
    """Add a tree as lines: types and fields in order, without places; an end after each node and list."""
    if isinstance(value, ast.AST):
        lines.append(f"<{type(value).__name__}")
        placeholder = names.get(id(value))
        for name, child in ast.iter_fields(value):
            if placeholder is not None and name in ("id", "arg"):
                lines.append(f"#{placeholder}")
            elif name not in ("type_comment", "ctx"):
                _write(child, names, lines)
        lines.append(">")
    elif isinstance(value, list):
        lines.append("[")
        for child in value:
            if not _is_remark(child):
                _write(child, names, lines)
        lines.append("]")
    else:
        lines.append(f"{type(value).__name__} {value!r}")


def _is_remark(node: object) -> bool:
    """A string that stands alone: a docstring, or nothing at all."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
