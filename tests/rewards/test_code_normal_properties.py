"""Programs made at random: equal keys behave equally, and dressing a program up does not change its key.

A program is a tree over numbered variables, written out here with names, layout and remarks of choice: nothing of
what is tested takes part in making the pair. It runs in this process, since it is our own text.
"""

import random
from dataclasses import dataclass, field

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from burnish.rewards.code_normal import code_key

NAMES = ["a", "b", "total", "list", "x1", "ö", "item", "dict", "_", "k", "value", "str"]
INPUTS = [(0, 0), (1, -2), (3, 5), (7, 2)]
QUICK = settings(
    max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None,
    phases=[Phase.generate],
)  # fmt: skip
Tree = tuple[object, ...]

numbers = st.integers(0, 3).map(lambda value: ("number", value))
variables = st.integers(0, 3).map(lambda number: ("variable", number))


def compound(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    operators = st.sampled_from("+-*")
    return st.one_of(
        st.tuples(st.just("operator"), operators, inner, inner),
        st.tuples(st.just("if"), inner, inner, inner),
        st.tuples(st.just("sum"), st.integers(0, 3), inner, st.integers(0, 3)),
        st.tuples(st.just("lambda"), st.integers(0, 3), inner, inner),
        st.tuples(st.just("text"), variables),
    )


expressions = st.recursive(st.one_of(numbers, variables), compound, max_leaves=6)
simple = st.one_of(
    st.tuples(st.just("set"), st.integers(0, 3), expressions),
    st.tuples(st.just("add"), st.integers(0, 3), expressions),
)
statements = st.one_of(
    simple,
    st.tuples(st.just("for"), st.integers(0, 3), st.integers(0, 3), st.lists(simple, min_size=1, max_size=2)),
    st.tuples(st.just("inner"), st.integers(0, 3), expressions, expressions, st.integers(0, 3)),
)
programs = st.tuples(st.lists(statements, min_size=1, max_size=4), expressions)


@dataclass
class Writer:
    """Writes a tree with the names of one choice, plain or dressed up."""

    names: list[str]
    rng: random.Random | None = None
    lines: list[str] = field(default_factory=list)

    def write(self, program: Tree) -> str:
        body, result = program
        a, b, c, d = self.names
        self.line(0, f"def f({a}, {b}):")
        if self.rng:
            self.line(1, f'"""Says {self.rng.random()}."""')
        self.line(1, f"{c} = {d} = 1")
        for statement in body:
            self.statement(statement)
        self.line(1, f"return {self.expression(result)}")
        return "\n".join(self.lines)

    def line(self, depth: int, text: str) -> None:
        if self.rng and self.rng.random() < 0.4:
            self.lines.append(self.rng.choice(["", "    # what follows", "  ", "# x = 3"]))
        remark = "  # so it is" if self.rng and self.rng.random() < 0.3 else ""
        indent = "   " if self.rng else "    "
        self.lines.append(indent * depth + text + remark)

    def statement(self, tree: Tree, depth: int = 1) -> None:
        match tree:
            case ("set", int(target), value):
                self.line(depth, f"{self.names[target]} = {self.expression(value)}")
            case ("add", int(target), value):
                self.line(depth, f"{self.names[target]} += {self.expression(value)}")
            case ("for", int(target), int(num), body):
                self.line(depth, f"for {self.names[target]} in range({num}):")
                for statement in body:
                    self.statement(statement, depth + 1)
            case ("inner", int(parameter), value, argument, int(target)):
                self.line(depth, f"def g({self.names[parameter]}):")
                self.line(depth + 1, f"return {self.expression(value)}")
                self.line(depth, f"{self.names[target]} = g({self.expression(argument)})")

    def expression(self, tree: Tree) -> str:
        text = self.bare(tree)
        return f"( {text} )" if self.rng and self.rng.random() < 0.3 else text

    def bare(self, tree: Tree) -> str:
        match tree:
            case ("number", int(value)):
                return str(value)
            case ("variable", int(number)):
                return self.names[number]
            case ("operator", sign, left, right):
                return f"({self.expression(left)} {sign} {self.expression(right)})"
            case ("if", test, yes, no):
                return f"({self.expression(yes)} if {self.expression(test)} else {self.expression(no)})"
            case ("sum", int(target), value, int(num)):
                return f"sum([{self.expression(value)} for {self.names[target]} in range({num})])"
            case ("lambda", int(parameter), value, argument):
                return f"(lambda {self.names[parameter]}: {self.expression(value)})({self.expression(argument)})"
            case ("text", variable):
                return f"len(f'{{ {self.bare(variable)} }}')" if self.rng else f'len(f"{{{self.bare(variable)}}}")'
        raise AssertionError(tree)


PLAIN_NAMES = ["p", "q", "r", "t"]


def behaviour(source: str) -> list[object]:
    """What a caller sees: values, or types of exceptions."""
    namespace: dict[str, object] = {"__name__": "solution"}
    exec(compile(source, "solution.py", "exec"), namespace)
    return [outcome(namespace["f"], arguments) for arguments in INPUTS]


def outcome(function, arguments) -> object:
    try:
        value = function(*arguments)
    except (ArithmeticError, NameError, TypeError, ValueError) as error:
        return type(error).__name__
    return value if not isinstance(value, int) or abs(value) < 10**30 else "large"


def key(source: str) -> str:
    return code_key(source, positional_calls=True).key


@QUICK
@given(program=programs, names=st.permutations(NAMES), seed=st.integers(0, 999))
def test_layout_remarks_and_names_do_not_count(program, names, seed):
    plain = Writer(PLAIN_NAMES).write(program)
    dressed = Writer(names[:4], random.Random(seed)).write(program)
    assert code_key(plain, positional_calls=True).level == "parameters"
    assert key(dressed) == key(plain)
    assert behaviour(dressed) == behaviour(plain)


def mutated(tree, rng: random.Random):
    """The tree with one number, variable or sign changed somewhere, or perhaps not at all."""
    if isinstance(tree, int):
        return (tree + rng.randint(1, 3)) % 4
    if isinstance(tree, str):
        return rng.choice("+-*") if tree in "+-*" else tree
    place = rng.randrange(len(tree))
    changed = [mutated(part, rng) if number == place else part for number, part in enumerate(tree)]
    return type(tree)(changed)


@QUICK
@given(program=programs, names=st.permutations(NAMES), seed=st.integers(0, 9999))
def test_programs_that_behave_differently_have_different_keys(program, names, seed):
    rng = random.Random(seed)
    one = Writer(PLAIN_NAMES).write(program)
    other = Writer(names[:4], rng).write(mutated(program, rng))
    assert key(one) != key(other) or behaviour(one) == behaviour(other)


small = st.tuples(st.lists(simple, min_size=1, max_size=1), st.one_of(numbers, variables))


@QUICK
@given(programs=st.lists(small, min_size=2, max_size=6), names=st.permutations(NAMES), seed=st.integers(0, 999))
def test_of_many_small_programs_those_with_equal_keys_behave_equally(programs, names, seed):
    rng = random.Random(seed)
    by_key: dict[str, list[object]] = {}
    for program in programs:
        source = Writer(rng.sample(names, 4), rng).write(program)
        assert by_key.setdefault(key(source), behaviour(source)) == behaviour(source)
