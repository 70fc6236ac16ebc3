"""The table: what shares a key, what does not, and what switches each level off."""

import pytest

from burnish.rewards.code_normal import code_key

PLAIN = """
def total(nums, k):
    s = 0
    for x in nums:
        s += x * k
    return s
"""


def level(source: str) -> str:
    return code_key(source, positional_calls=True).level


@pytest.mark.parametrize(
    "other",
    [
        PLAIN + "\n\n# a remark\n",
        PLAIN.replace("    s = 0", '    """What it does."""\n    s = (0)  # nothing yet'),
        PLAIN.replace("    ", "\t").replace("x * k", "x*k"),
        PLAIN.replace("s +=", "acc +=").replace("s = 0", "acc = 0").replace("return s", "return acc"),
        PLAIN.replace("nums", "list").replace("k", "sum"),
        PLAIN.replace("0", "0x0"),
    ],
)
def test_what_cannot_change_the_result_shares_a_key(other):
    assert code_key(other, positional_calls=True) == code_key(PLAIN, positional_calls=True)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (PLAIN, PLAIN.replace("0", "1")),
        (PLAIN, PLAIN.replace("0", "0.0")),
        (PLAIN, PLAIN.replace("0", "False")),
        (PLAIN, PLAIN.replace("x * k", "k * x")),
        (PLAIN, PLAIN.replace("total", "sums")),
        (PLAIN, PLAIN.replace("(nums, k)", "(k, nums)")),
        (PLAIN, PLAIN.replace("return s", "return x")),
        ("def f(a):\n    return f'{a=}'", "def f(b):\n    return f'{b=}'"),
        ("def f(a):\n    return f'{a=}'", "def f(a):\n    return f'{a = }'"),
        ("def f(a):\n    return lambda: max", "def f(max):\n    return lambda: max"),
        ("def f(a):\n    return [b for b in a for a in b]", "def f(a):\n    return [a for a in a for a in a]"),
        ("k = 1\ndef f(a):\n    return k", "k = 1\ndef f(k):\n    return k"),
        ("def f(a):\n    return (lambda b: a)(1)", "def f(a):\n    return (lambda a: a)(1)"),
        ("x = 1\ndef f(a):\n    y = a\n    return x", "x = 1\ndef f(a):\n    x = a\n    return x"),
        ("def f(a, *, k=1):\n    return k", "def f(a, *, j=1):\n    return j"),
        ("import math\ndef f(a):\n    return math.floor(a)", "import math\ndef f(a):\n    return math.ceil(a)"),
    ],
)  # fmt: skip
def test_what_may_change_the_result_does_not(left, right):
    assert code_key(left, positional_calls=True).key != code_key(right, positional_calls=True).key


IN_F = "def f(a):\n    b = 1\n    {}\n    return b"


@pytest.mark.parametrize(
    "looks",
    [
        "locals()", "globals()", "vars()", "dir()", "eval('b')", "exec('b')", "getattr(a, 'x')", "id(a)", "hash(a)",
        "f.__code__", "f.__doc__", "f.__name__", "a.co_varnames", "a.gi_frame", "a.tb_lineno", "a.f_locals",
        "a.__traceback__", "'{0.real}'.format(a)", "a.format(b)", "'x'.format_map(a)", "type('C', (), {})", "nowhere",
        "import inspect", "import sys", "import traceback", "import linecache", "from functools import wraps",
        "from math import *", "from collections import namedtuple", "import re; re.enum", "import math; [math]",
        "eval = 1", "math = 1; import math", "open(a)", "with a: pass", "print(super)", "__x = 1",
    ],
)  # fmt: skip
def test_a_program_that_may_look_at_itself_is_left_alone(looks):
    found = code_key(IN_F.format(looks), positional_calls=True)
    assert found.level == "raw"
    assert found.reason


@pytest.mark.parametrize(
    "source",
    [
        IN_F.format("del b"),
        "b = 0\n" + IN_F.format("pass").replace("b = 1", "global b\n    b = 1"),
        "def f(a):\n    b = 1\n    def g():\n        nonlocal b\n        b = 2\n    return b",
        IN_F.format("class C:\n        b = 2"),
        IN_F.format("try:\n        b = a[0]\n    except IndexError as e:\n        return str(e)"),
        IN_F.format("match a:\n        case [c, *d]:\n            pass"),
        IN_F.format("[c := x for x in a]"),
        IN_F.format("f.calls = b"),
        "import functools\n" + "def g(h):\n    return h\n@g\n" + IN_F.format("pass"),
    ],
)
def test_where_names_can_be_seen_they_count_but_layout_does_not(source):
    assert level(source) == "layout"
    assert code_key(source + "\n# a remark", positional_calls=True) == code_key(source, positional_calls=True)
    assert code_key(source.replace("b", "q"), positional_calls=True) != code_key(source, positional_calls=True)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("g(b=1)", "names"),
        ("g(**{})", "names"),
        ("[g][0](b=1)", "names"),
        ("sorted([1], key=g)", "parameters"),
        ("print(1, end='')", "parameters"),
        ("[1].sort(key=g)", "parameters"),
        ("(lambda **kw: kw)()", "names"),
    ],
)
def test_parameters_keep_their_names_where_a_keyword_may_reach_them(call, expected):
    assert level(f"def g(b):\n    return b\ndef f(a):\n    c = a\n    return {call}") == expected


def test_parameters_keep_their_names_unless_outside_calls_are_positional():
    renamed = PLAIN.replace("nums", "values")
    assert code_key(PLAIN, positional_calls=False) != code_key(renamed, positional_calls=False)
    locals_renamed = PLAIN.replace("x", "y")
    assert code_key(PLAIN, positional_calls=False) == code_key(locals_renamed, positional_calls=False)


@pytest.mark.parametrize(
    "hostile",
    [
        "def f(:", "x = \ud800", "a\0b", "x = " + "9" * 300_000, "x=" + "-" * 7000 + "1", "(" * 4000,
        "f(" * 90 + ")" * 90,
        "x = (" + "\n".join(["not"] * 1900) + "\n1)", "if x:pass\n" + "elif x:pass\n" * 500, "{1:(" * 60,
    ],
)  # fmt: skip
def test_hostile_text_gets_a_key_of_its_own(hostile):
    assert code_key(hostile, positional_calls=True).level == "raw"
    assert code_key(hostile + " ", positional_calls=True) != code_key(hostile, positional_calls=True)
