"""Families of short Python functions: what a family is, and how a problem is drawn from one.

A family is a row of data: how to ask, how to answer, and what its parameters may be. A problem fixes
the function's name, the names of its parameters, the constants and the wording, so that a family has
hundreds of problems. Families are held out whole: `code_families_held_out*` are for evaluation alone.

Decisions: the expected values come from the gold answer itself, which is our own text; the inputs
are drawn again until neither a constant nor the unchanged input is right on more than half of them. The
input that the prompt shows is never among the hidden ones. `Rule` says in numbers what a problem computes, so that
its reference can be made again from the tables here, never from text that came with a task.
"""

import copy
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from burnish.core.types import Json

Kind = Literal["ints", "repeats", "words", "text", "mirror", "number", "natural", "long_number"]
Values = Mapping[str, str | int]
Variants = tuple[Values, ...]

PARITY: Variants = ({"parity": "even", "bit": 0}, {"parity": "odd", "bit": 1})
POWERS: Variants = ({"power": "square", "exponent": 2}, {"power": "cube", "exponent": 3})
SIGNS: Variants = ({"side": "positive", "test": ">"}, {"side": "negative", "test": "<"})

NUM_CALLS = 8
MOST_DRAWS = 2_000
"""The rarest problem needs some 200 draws of its inputs."""

PARAMETER_NAMES: Mapping[Kind, tuple[str, ...]] = {
    "ints": ("nums", "values", "xs", "items"),
    "repeats": ("nums", "values", "xs", "items"),
    "words": ("words", "names", "items", "tokens"),
    "text": ("text", "s", "line", "string"),
    "mirror": ("text", "s", "word", "string"),
    "number": ("n", "x", "num", "value"),
    "natural": ("n", "x", "num", "value"),
    "long_number": ("n", "x", "num", "value"),
}
EMPTY: Mapping[Kind, Json] = {
    "ints": [],
    "repeats": [],
    "words": [],
    "text": "",
    "mirror": "",
    "number": 0,
    "natural": 0,
    "long_number": 0,
}
WORDS = tuple(
    "apple bread cloud dance eagle flame green house ice jelly kite lemon moon night ocean paper queen river stone "
    "tree under violet water yellow zebra ant bee cat dog egg fox sun tea owl map banana orange summer winter letter "
    "an to go up at sea eye area idea level noon radar salt snow star bear boat box cup car cake tiger tent toy".split()
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Family:
    """One kind of function, as templates over the names `f` (function), `a`, `b` (parameters) and the constants.

    Each is one row of the tables, and equal to itself alone.
    """

    name: str
    functions: tuple[str, ...]
    takes: tuple[Kind, ...]
    asks: tuple[str, ...]
    """Endings of "Write a Python function that ..."."""
    body: str
    variants: Variants = ({},)
    """Words and signs that go together, one set a problem."""
    constants: Mapping[str, range] | None = None
    has_empty: bool = True
    """Whether the empty list, the empty text or zero is among the inputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a problem of a family computes: the number of its variant, and its constants."""

    variant: int
    constants: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One function to write, and the calls that judge it."""

    rule: Rule
    function: str
    signature: str
    ask: str
    solution: str
    example: list[Json]
    example_value: Json
    calls: list[Json]
    expected: list[Json]


def draw(family: Family, rng: Random) -> Problem:
    """Draw one problem; equal states of `rng` give equal problems."""
    parameters = _parameters(family.takes, rng)
    rule = _rule(family, rng)
    values = _values(family, parameters, rule)
    function = rng.choice(family.functions).format(**values)
    signature = f"{function}({', '.join(parameters)})"
    solution = _solution(family, signature, values)
    calls, expected = _draw_calls(family, solution, function, rng)
    return Problem(
        rule=rule,
        function=function,
        signature=signature,
        ask=rng.choice(family.asks).format(**values),
        solution=solution,
        example=calls[0],
        example_value=expected[0],
        calls=list(calls[1:]),
        expected=expected[1:],
    )


def reference(family: Family, rule: Rule, function: str) -> str:
    """The gold solution of a problem, made again from the family's own text and numbers."""
    parameters = list("ab"[: len(family.takes)])
    return _solution(family, f"{function}({', '.join(parameters)})", _values(family, parameters, rule))


def is_telling(calls: Sequence[Sequence[Json]], expected: Sequence[Json]) -> bool:
    """All inputs differ, and neither a constant nor the unchanged input is right on more than half."""
    num_distinct = len({json.dumps(arguments) for arguments in calls})
    commonest = Counter(json.dumps(value) for value in expected).most_common(1)[0][1]
    num_unchanged = sum(arguments[0] == value for arguments, value in zip(calls, expected, strict=True))
    return num_distinct == len(calls) and max(commonest, num_unchanged) <= len(calls) // 2


def run_gold(solution: str, function: str, calls: list[list[Json]]) -> list[Json]:
    """Run a gold solution, our own text, on its inputs; the values as they look after JSON."""
    namespace: dict[str, object] = {}
    exec(solution, namespace)
    target = namespace[function]
    assert callable(target)
    return [json.loads(json.dumps(target(*copy.deepcopy(arguments)))) for arguments in calls]


def _solution(family: Family, signature: str, values: Values) -> str:
    return f"def {signature}:\n" + "\n".join("    " + line for line in family.body.format(**values).splitlines())


def _rule(family: Family, rng: Random) -> Rule:
    constants = {name: rng.choice(numbers) for name, numbers in (family.constants or {}).items()}
    return Rule(variant=rng.choice(range(len(family.variants))), constants=constants)


def _values(family: Family, parameters: list[str], rule: Rule) -> Values:
    """What the templates are filled with: parameters, constants, and a variant, itself filled with the constants."""
    variant = {name: str(text).format(**rule.constants) for name, text in family.variants[rule.variant].items()}
    return {**dict(zip("ab", parameters, strict=False)), **rule.constants, **variant}


def _parameters(takes: tuple[Kind, ...], rng: Random) -> list[str]:
    """Name the parameters; two of one kind are called a and b."""
    if len(takes) > 1 and len(set(takes)) == 1:
        return list("ab"[: len(takes)])
    return [rng.choice(PARAMETER_NAMES[kind]) for kind in takes]


def _draw_calls(family: Family, solution: str, function: str, rng: Random) -> tuple[list[list[Json]], list[Json]]:
    """The example first, then the hidden calls."""
    for _ in range(MOST_DRAWS):
        calls = [[_input(kind, rng) for kind in family.takes] for _ in range(NUM_CALLS + 1)]
        if family.has_empty:
            calls[1] = [EMPTY[kind] for kind in family.takes]
        expected = run_gold(solution, function, calls)
        if is_telling(calls[1:], expected[1:]) and calls[0] not in calls[1:]:
            return calls, expected
    raise AssertionError(f"family {family.name!r}: no telling inputs for {solution!r}")


def _input(kind: Kind, rng: Random) -> Json:
    match kind:
        case "ints":
            return [rng.randint(-4, 15) for _ in range(rng.randint(3, 5))]
        case "repeats":
            return [rng.randint(0, 5) for _ in range(rng.randint(4, 6))]
        case "words":
            return list(rng.sample(WORDS, rng.randint(3, 4)))
        case "text":
            return " ".join(rng.sample(WORDS, rng.randint(2, 4)))
        case "mirror":
            return _mirror(rng)
        case "number":
            return rng.randint(-20, 60)
        case "natural":
            return rng.randint(1, 14)
        case "long_number":
            return rng.randint(10, 99999)


def _mirror(rng: Random) -> str:
    """A word that reads the same backwards about half of the time."""
    half = "".join(rng.choice("abcde") for _ in range(rng.randint(1, 3)))
    tail = half[::-1] if rng.random() < 0.5 else half[::-1] + rng.choice("xyz")
    return half + tail
