"""What a program could see of its own text: layout, documentation, names.

`opaque` is why nothing at all may be changed; `keeps_names` why no variable may be renamed; `keeps_parameters` why
parameters may not. Each is "" where nothing was found. The first find is enough.

Opaque: a syntax node, name, attribute or imported member that `code_vocabulary` does not allow; a module used as a
value; a name that is bound nowhere; `type` with three arguments; `str.format` on what is not a plain literal.
Keeps names: class bodies, `global`, `nonlocal`, `del NAME`, `except ... as`, captures of `match`, decorators, a walrus
inside a comprehension, attributes that are written to.
Keeps parameters: a call with keywords that may reach a function of the program; a function with `**` parameters.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from burnish.rewards.code_vocabulary import (
    ALLOWED_NODES,
    MEMBERS,
    METHODS_TAKE_KEYWORDS,
    SAFE_BUILTINS,
    TAKE_KEYWORDS,
    UNSAFE_BUILTINS,
    shows_insides,
)

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Reasons to leave a program as it is; "" where there is none."""

    opaque: str = ""
    keeps_names: str = ""
    keeps_parameters: str = ""


def facts_of(tree: ast.Module) -> Facts:
    """Look at every node once."""
    nodes = list(ast.walk(tree))
    modules = {(a.asname or a.name): a.name for n in nodes if isinstance(n, ast.Import) for a in n.names}
    bound = {name for node in nodes for name in bound_names(node)}
    opaque = next(_opaque_finds(nodes, modules, bound), "")
    if opaque:
        return Facts(opaque=opaque)
    return Facts(
        keeps_names=next(filter(None, map(_why_names_stay, nodes)), ""),
        keeps_parameters=next(filter(None, (_why_parameters_stay(node, bound, modules) for node in nodes)), ""),
    )


def bound_names(node: ast.AST) -> list[str]:
    """The names that a node binds by itself; imports of modules are looked at elsewhere."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            return [name]
        case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return [name]
        case ast.MatchMapping(rest=str(name)):
            return [name]
        case ast.ImportFrom(names=aliases):
            return [alias.asname or alias.name for alias in aliases]
        case _:
            return []


def _opaque_finds(nodes: list[ast.AST], modules: dict[str, str], bound: set[str]) -> Iterator[str]:
    yield from (f"import {module}" for module in modules.values() if module not in MEMBERS)
    yield from (f"{name!r} is a module and more" for name in modules if name in bound or name in SAFE_BUILTINS)
    fine = _members_of_modules(nodes, modules) | _types_asked_for(nodes) | _plain_formats(nodes)
    for node in nodes:
        if not isinstance(node, ALLOWED_NODES):
            yield type(node).__name__
        elif id(node) not in fine:
            yield from _opaque_node(node, modules, bound)


def _opaque_node(node: ast.AST, modules: dict[str, str], bound: set[str]) -> Iterator[str]:
    match node:
        case ast.ImportFrom(module=module, level=level, names=aliases):
            if level or any(alias.name not in MEMBERS.get(module or "", ()) for alias in aliases):
                yield f"from {module} import"
        case ast.Attribute(attr=attribute) if shows_insides(attribute) or attribute == "format":
            yield f"attribute {attribute}"
        case ast.MatchClass(kwd_attrs=attributes) if any(map(shows_insides, attributes)):
            yield "a class pattern"
        case ast.Name(id="type", ctx=ast.Load()):
            yield "type"
        case ast.Name(id=name) if name in modules:
            yield f"module {name} as a value"
        case ast.Name(id=name, ctx=ast.Load()) if name not in bound and name not in SAFE_BUILTINS:
            if name != "__name__":
                yield f"name {name}"
        case _:
            pass
    yield from (f"name {name}" for name in [*bound_names(node), *_loaded(node)] if _is_special(name))


def _loaded(node: ast.AST) -> list[str]:
    return [node.id] if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id != "__name__" else []


def _is_special(name: str) -> bool:
    """Whether a name means something to the interpreter: even bound in one scope, it may be a builtin in another."""
    return name in UNSAFE_BUILTINS or name.startswith("__")


def _members_of_modules(nodes: list[ast.AST], modules: dict[str, str]) -> set[int]:
    """The nodes of `module.member` where the member is allowed."""
    return {
        id(part)
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and isinstance(node.value, ast.Name)
        if node.attr in MEMBERS.get(modules.get(node.value.id, ""), ())
        for part in (node, node.value)
    }


def _types_asked_for(nodes: list[ast.AST]) -> set[int]:
    """The names in `type(x)`; with three arguments it would make a class out of strings."""
    return {
        id(node.func)
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "type"
        if len(node.args) == 1 and not node.keywords and not isinstance(node.args[0], ast.Starred)
    }


def _plain_formats(nodes: list[ast.AST]) -> set[int]:
    """`"...".format` on a literal whose fields reach into no attribute."""
    return {
        id(node.func)
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format"
        if isinstance(node.func.value, ast.Constant) and isinstance(node.func.value.value, str)
        if not set(".[") & set(node.func.value.value)
    }


def _why_names_stay(node: ast.AST) -> str:
    match node:
        case ast.ClassDef() | ast.Global() | ast.Nonlocal() | ast.Match():
            return type(node).__name__
        case ast.Name(ctx=ast.Del()):
            return "del"
        case ast.Attribute(ctx=ast.Store() | ast.Del()):
            return "an attribute that is written to"
        case ast.ExceptHandler(name=str()):
            return "except ... as"
        case ast.FunctionDef(decorator_list=[_, *_]):
            return "a decorator"
        case _ if isinstance(node, COMPREHENSIONS):
            return "a walrus in a comprehension" if any(isinstance(n, ast.NamedExpr) for n in ast.walk(node)) else ""
        case _:
            return ""


def _why_parameters_stay(node: ast.AST, bound: set[str], modules: dict[str, str]) -> str:
    if isinstance(node, ast.arguments) and node.kwarg is not None:
        return "a ** parameter"
    if not isinstance(node, ast.Call) or not node.keywords:
        return ""
    match node.func:
        case ast.Name(id=name) if name in TAKE_KEYWORDS and name not in bound:
            return ""
        case ast.Attribute(attr=attribute, value=value) if attribute in METHODS_TAKE_KEYWORDS:
            is_module = isinstance(value, ast.Name) and value.id in modules
            return "a keyword to a module's function" if is_module else ""
        case _:
            return "a call with keywords"
