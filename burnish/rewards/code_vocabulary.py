"""The words that a program may use and still be known not to look at its own text.

Decisions: lists of what is allowed, not of what is forbidden: a word that is missing costs a cache hit, a word too
many costs a wrong verdict. Of modules only the members named here may be used, because modules lead to others
(`re.enum.sys`). What is left out, and why:
- sees names, code objects or source: `locals globals vars dir eval exec compile __import__ getattr setattr delattr
  hasattr help breakpoint input open super property`, `inspect sys traceback linecache warnings logging ast dis gc
  types dataclasses enum pickle contextlib`, `operator.attrgetter`, `string.Formatter`, `collections.namedtuple`;
- depends on addresses, which move with the length of a text: `id hash object memoryview`;
- `random`, `time`: no verdict that depends on them is worth keeping.
"""

import ast
import builtins

_NAMED = (
    "abs all any ascii bin bool bytearray bytes callable chr complex dict divmod enumerate filter float "
    "format frozenset hex int isinstance issubclass iter len list map max min next oct ord pow print range "
    "repr reversed round set slice sorted str sum tuple zip type NotImplemented Ellipsis"
)
_ERRORS = {
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException) and not issubclass(value, Warning)
}
SAFE_BUILTINS = frozenset(_NAMED.split()) | _ERRORS
UNSAFE_BUILTINS = (
    frozenset(vars(builtins)) | frozenset("exit quit help license credits copyright open input".split())
) - SAFE_BUILTINS

TAKE_KEYWORDS = frozenset("bytes dict enumerate float int max min pow print round sorted str sum zip".split())
"""Builtins whose keywords name no parameter of a function of the program."""
METHODS_TAKE_KEYWORDS = frozenset("decode encode expandtabs format rsplit sort split splitlines to_bytes".split())

_MODULES = {
    "math": (
        "acos acosh asin asinh atan atan2 atanh cbrt ceil comb copysign cos cosh degrees dist e erf erfc "
        "exp exp2 expm1 fabs factorial floor fmod frexp fsum gamma gcd hypot inf isclose isfinite isinf "
        "isnan isqrt lcm ldexp lgamma log log10 log1p log2 modf nan nextafter perm pi pow prod radians "
        "remainder sin sinh sqrt tan tanh tau trunc ulp"
    ),
    "itertools": (
        "accumulate chain combinations combinations_with_replacement compress count cycle dropwhile "
        "filterfalse groupby islice pairwise permutations product repeat starmap takewhile tee zip_longest"
    ),
    "functools": "reduce cmp_to_key partial",
    "collections": "Counter defaultdict deque OrderedDict",
    "string": (
        "ascii_letters ascii_lowercase ascii_uppercase digits hexdigits octdigits punctuation whitespace printable"
    ),
    "operator": (
        "abs add and_ concat contains countOf eq floordiv ge getitem gt indexOf inv itemgetter le lshift "
        "lt mod mul ne neg not_ or_ pos pow rshift sub truediv truth xor"
    ),
    "heapq": "heapify heappop heappush heappushpop heapreplace merge nlargest nsmallest",
    "bisect": "bisect bisect_left bisect_right insort insort_left insort_right",
    "re": (
        "compile escape findall finditer fullmatch match search split sub subn A ASCII DOTALL I IGNORECASE "
        "M MULTILINE S VERBOSE X"
    ),
    "fractions": "Fraction",
    "decimal": "Decimal",
    "copy": "copy deepcopy",
    "json": "dumps loads",
    "typing": (
        "Any Callable Dict FrozenSet Generator Iterable Iterator List Mapping Optional Sequence Set Tuple Union"
    ),
}
MEMBERS = {module: frozenset(members.split()) for module, members in _MODULES.items()}

_SPECIAL_PREFIXES = ("co_", "f_", "tb_", "gi_", "cr_", "ag_", "func_", "im_")


def shows_insides(attribute: str) -> bool:
    """Whether an attribute may lead to names, frames, code or documentation."""
    is_special = attribute.startswith("__") and attribute.endswith("__")
    return is_special or attribute.startswith(_SPECIAL_PREFIXES) or attribute in ("format_map", "with_traceback", "mro")


ALLOWED_NODES = (
    ast.Module, ast.FunctionDef, ast.ClassDef, ast.Return, ast.Delete, ast.Assign, ast.AugAssign,
    ast.AnnAssign, ast.For, ast.While, ast.If, ast.Match, ast.Raise, ast.Try, ast.Assert, ast.Import,
    ast.ImportFrom, ast.Global, ast.Nonlocal, ast.Expr, ast.Pass, ast.Break, ast.Continue, ast.BoolOp,
    ast.NamedExpr, ast.BinOp, ast.UnaryOp, ast.Lambda, ast.IfExp, ast.Dict, ast.Set, ast.ListComp,
    ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Yield, ast.YieldFrom, ast.Compare, ast.Call,
    ast.FormattedValue, ast.JoinedStr, ast.Constant, ast.Attribute, ast.Subscript, ast.Starred, ast.Name,
    ast.List, ast.Tuple, ast.Slice, ast.comprehension, ast.ExceptHandler, ast.arguments, ast.arg, ast.keyword,
    ast.alias, ast.match_case, ast.pattern, ast.expr_context, ast.boolop, ast.operator, ast.unaryop,
    ast.cmpop,
)  # fmt: skip
"""No `with` (it hands tracebacks around), nothing asynchronous, nothing newer than this list."""
