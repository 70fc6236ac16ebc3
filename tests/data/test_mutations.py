"""Planted faults: each kind says what it should, nothing else of the file changes, and every mutant parses."""

import ast
import inspect
import textwrap

import pytest

from burnish.data.mutations import find, operators
from burnish.data.mutations.edits import Edit, apply


def mutants(source: str, kind: str) -> list[str]:
    source = textwrap.dedent(source).lstrip()
    return [apply(source, each.edits) for each in find.mutations(source, [kind])]


def bodies(source: str, kind: str) -> list[str]:
    """The mutants of a function of one line."""
    whole = f"def f(a, b):\n    {source}\n"
    return [mutant.removeprefix("def f(a, b):\n    ").removesuffix("\n") for mutant in mutants(whole, kind)]


@pytest.mark.parametrize(
    ("kind", "source", "expected"),
    [
        ("comparison", "return a < b", ["return a <= b"]),
        ("comparison", "return a < b == 3", ["return a <= b == 3", "return a < b != 3"]),
        ("comparison", "return a is not b", ["return a is b"]),
        ("comparison", "return (a) in (b)", ["return (a) not in (b)"]),
        ("arithmetic", "return a + b * 2", ["return a - b * 2", "return a + b + 2"]),
        ("arithmetic", "return 'x' % b", []),
        ("boolean", "return a and b or a", ["return a or b or a", "return a and b and a"]),
        ("off_by_one", "return a[0] + 7", ["return a[1] + 7", "return a[0] + 6", "return a[0] + 8"]),
        ("off_by_one", "return True, 0x10, 1.5", []),
        ("condition", "return a if not b else 0", ["return a if b else 0"]),
        ("condition", "return a if b or a else 0", ["return a if not (b or a) else 0"]),
        ("boundary", "return a[b:]", ["return a[b + 1:]", "return a[b - 1:]"]),
        ("boundary", "return range(len(a))", ["return range(len(a) + 1)", "return range(len(a) - 1)"]),
        ("wrong_variable", "return a", ["return b"]),
        ("swapped_arguments", "return f(a, b, k=1)", ["return f(b, a, k=1)"]),
        ("swapped_arguments", "return f(a, a)", []),
        ("returned_nothing", "return a", ["return None"]),
        ("returned_nothing", "return 1", []),
    ],
)
def test_what_each_kind_makes_of_a_line(kind: str, source: str, expected: list[str]) -> None:
    assert bodies(source, kind) == expected


def test_statements_are_dropped_and_shuffled_but_docstrings_stay() -> None:
    source = '''
        def f(a):
            """Say."""
            a += 1  # é
            print(a)
            return a
        '''
    assert [mutant.splitlines()[2:4] for mutant in mutants(source, "dropped_statement")] == [
        ["    pass  # é", "    print(a)"],
        ["    a += 1  # é", "    pass"],
    ]
    (shuffled,) = mutants(source, "shuffled_statements")
    assert shuffled.splitlines()[2:4] == ["    print(a)  # é", "    a += 1"]


def test_handlers_jumps_and_bodies() -> None:
    source = '''
        def f(a):
            """Say."""
            for x in a:
                try:
                    g(x)
                except ValueError:
                    raise
                break
        '''
    assert ["except KeyError:" in mutant for mutant in mutants(source, "exception_handling")] == [True, False]
    assert "                    pass" not in source
    assert mutants(source, "exception_handling")[1].count("pass") == 1
    assert mutants(source, "jump")[0].count("continue") == 1
    whole = 'def f(a):\n    """Say."""\n    b = a\n    return b\n'
    assert mutants(whole, "removed_body") == ['def f(a):\n    """Say."""\n    raise NotImplementedError\n']


def test_a_fault_names_its_function_and_line() -> None:
    source = "class A:\n    def f(self, x):\n        def g(y):\n            return y < 1\n        return g\n"
    (fault,) = find.mutations(source, ["comparison"])
    assert (fault.kind, fault.function, fault.line) == ("comparison", "A.f.<locals>.g", 4)


def test_a_statement_is_named_by_its_own_line_and_one_that_does_nothing_is_not_dropped() -> None:
    source = "def f(a):\n    if a:\n        b = 1\n        a += b\n    ...\n    return a\n"
    assert [fault.line for fault in find.mutations(source, ["dropped_statement"])] == [3, 4]


def test_every_mutant_of_real_code_parses_and_differs_only_where_it_says() -> None:
    source = inspect.getsource(textwrap)
    faults = find.mutations(source)
    assert len(faults) > 500
    assert {fault.kind for fault in faults} >= {"comparison", "off_by_one", "wrong_variable", "dropped_statement"}
    plain, data = ast.dump(ast.parse(source)), source.encode()
    for fault in faults[::29]:
        mutant = apply(source, fault.edits)
        assert ast.dump(ast.parse(mutant)) != plain
        first, last = min(edit.start for edit in fault.edits), max(edit.end for edit in fault.edits)
        assert mutant.encode()[:first] == data[:first]
        assert mutant.encode().endswith(data[last:])


def test_the_list_depends_on_the_text_alone() -> None:
    source = inspect.getsource(textwrap.indent)
    assert find.mutations(source) == find.mutations(source) != []


def test_edits_that_overlap_or_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="overlap"):
        apply("abcd", [Edit(start=0, end=3, before="abc", after=""), Edit(start=2, end=4, before="cd", after="")])
    with pytest.raises(ValueError, match="expected 'x'"):
        apply("abcd", [Edit(start=0, end=1, before="x", after="")])


def test_every_operator_is_listed_by_its_name() -> None:
    assert len(operators.OPERATORS) == 14
