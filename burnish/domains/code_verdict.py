"""What a reply to `code` is worth: the task's listed calls, beside perturbed ones that are listed nowhere.

Decisions: the perturbed inputs are like the listed ones (`rewards.perturb`), numbers as far out as their kind goes and
further where it has few values, so that no table of listed inputs helps. Their values come from the family's own
reference, which trusted code makes from the tables of the families and runs; nothing of a task is executed here. They
are drawn by the task's content, so that equal tasks ask equal questions of all replies, and drawn again until
there are eight and neither a constant nor the unchanged input is right on more than half.
The score is the *smaller* of the two shares: what knows listed inputs by heart earns what it is worth on others. It
is 0 where the verdict is marked `special_cased` or `computes_nothing` (see `rewards.code_value`).
All calls share one process, listed and perturbed mixed: the cheapest way, and none shows which it is. A function that
hangs or kills its process deserves no more care. Types are exact, floats to 1e-9 relative.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from burnish.core.seeds import derive
from burnish.core.types import Json, Task, Verdict
from burnish.domains.code_families import Family, Kind, Rule, reference, run_gold
from burnish.rewards.code_value import Case, CodeTask, Origin, verify
from burnish.rewards.perturb import perturb
from burnish.sandbox import Box, ResourceLimits

# A hang spends its processor time; the wall is far off, so that a busy machine never looks like a hang.
JOB_LIMITS = ResourceLimits(wall_s=15.0, cpu_s=1.0, memory_mb=256, num_processes=8, output_bytes=1 << 18)
NUM_PERTURBED = 8
FURTHEST: Mapping[Kind, tuple[int, ...]] = {"number": (-20, 60), "natural": (0, 40)}
"""How far out the inputs of a kind may lie; those listed show less of it, or leave too few between them."""
DRAWS_FOR_ONE = 2
MOST_ATTEMPTS = 50
REFERENCE = "reference"
"""What the reference is called: a task's name for it is text of the task, which is not executed here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What a task's truth says; `shown` is the prompt's example, which counts for nothing."""

    function: str
    shown: list[Json]
    shown_value: Json
    calls: list[list[Json]]
    expected: list[Json]
    family: str
    rule: Rule


def read_truth(truth: Mapping[str, Json]) -> Truth:
    """Read a truth as `Code.task` writes it."""
    function, shown, calls, expected = truth["function"], truth["shown"], truth["calls"], truth["expected"]
    assert isinstance(function, str) and isinstance(shown, list)
    assert isinstance(calls, list) and isinstance(expected, list)
    return Truth(
        function=function,
        shown=shown,
        shown_value=truth["shown_value"],
        calls=[_arguments(call) for call in calls],
        expected=expected,
        family=str(truth["family"]),
        rule=Rule(variant=_whole(truth["variant"]), constants=_numbers(truth["constants"])),
    )


def _arguments(call: Json) -> list[Json]:
    assert isinstance(call, list)
    return call


def _whole(number: Json) -> int:
    assert isinstance(number, int)
    return number


def _numbers(constants: Json) -> Mapping[str, int]:
    """Numbers only: they are put into the reference's text."""
    assert isinstance(constants, dict)
    return {name: _whole(number) for name, number in constants.items()}


def code_task(task: Task, family: Family) -> CodeTask:
    """All calls that judge replies to a task, in the order in which they are made."""
    return _code_task(json.dumps(dict(task.truth)), family, derive(0, "perturbed", task.content_hash))


@lru_cache(maxsize=1024)
def _code_task(text: str, family: Family, seed: int) -> CodeTask:
    """Made once for all replies to a task: drawing takes about as long as a verdict."""
    truth = read_truth(json.loads(text))
    cases = [Case(arguments=truth.shown, expected=truth.shown_value, origin="shown")]
    cases += _cases(truth.calls, truth.expected, "hidden")
    cases += _cases(*perturbed(truth, family, seed), "perturbed")
    Random(seed).shuffle(cases)
    return CodeTask(function=truth.function, cases=tuple(cases), call_s=None, keeps_order=True, limits=JOB_LIMITS)


def _cases(calls: Sequence[list[Json]], expected: Sequence[Json], origin: Origin) -> list[Case]:
    pairs = zip(calls, expected, strict=True)
    return [Case(arguments=arguments, expected=value, origin=origin) for arguments, value in pairs]


def perturbed(truth: Truth, family: Family, seed: int) -> tuple[list[list[Json]], list[Json]]:
    """Inputs like the listed ones, and what the family's reference makes of them; equal seeds, equal inputs."""
    source = reference(family, truth.rule, REFERENCE)
    ends = zip(*(FURTHEST.get(kind, ()) for kind in family.takes), strict=True)
    examples = [truth.shown, *truth.calls, *map(list[Json], ends)]
    for attempt in range(MOST_ATTEMPTS):
        calls = perturb(examples, derive(seed, attempt), DRAWS_FOR_ONE * NUM_PERTURBED)
        pairs = _telling(zip(calls, run_gold(source, REFERENCE, calls), strict=True))
        if len(pairs) == NUM_PERTURBED:
            return [arguments for arguments, _ in pairs], [value for _, value in pairs]
    raise AssertionError(f"family {family.name!r}: no telling inputs like {truth.calls!r}")


def _telling(pairs: Iterable[tuple[list[Json], Json]]) -> list[tuple[list[Json], Json]]:
    """The first of them of which at most half have one value, and at most half their input for value."""
    values: Counter[str] = Counter()
    kept: list[tuple[list[Json], Json]] = []
    for arguments, value in pairs:
        kinds = [json.dumps(value), *(["unchanged"] if arguments[0] == value else [])]
        if len(kept) < NUM_PERTURBED and all(values[kind] < NUM_PERTURBED // 2 for kind in kinds):
            values.update(kinds)
            kept.append((arguments, value))
    return kept


async def run_and_judge(task: CodeTask, source: str, box: Box) -> Verdict:
    """Run a reply's code on all calls in the sandbox, compare here, and pay the smaller share, or nothing."""
    verdict = await verify(task, source, box)
    parts = dict(verdict.parts)
    parts["passed"] = min([parts[origin] for origin in ("hidden", "perturbed") if origin in parts] or [parts["passed"]])
    is_paid = not parts.get("computes_nothing") and not parts.get("special_cased")
    return Verdict.scored(parts["passed"] if is_paid else 0.0, parts, verdict.evidence)
