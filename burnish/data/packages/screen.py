"""Screen faults: many in one box, each in a fork of a process that has the suite collected (`inside_screen`).

A fault costs a fork, the compilation of its files and the tests that run its lines; what is dear (a box, pytest, the
package's import, collection) is paid once for all. Decisions: a test that does not end, and one that eats the memory,
make no task; how long a fault may take goes by what its tests took in the survey. Faults of which more tests fail than
may are stopped there. If the box dies, so does the fault that was tried then, and another box takes the rest.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from burnish.core.config import Strict
from burnish.core.errors import SandboxError
from burnish.core.types import sha256_json
from burnish.data.packages.catalogue import Tree
from burnish.data.packages.sites import Candidate
from burnish.data.packages.survey import LIMITS, PRELOAD, Coverage
from burnish.sandbox import Box, Job

PROGRAM: Final = Path(__file__).with_name("inside_screen.py").read_text(encoding="utf-8")
VERSION: Final = sha256_json(PROGRAM)[:8]
"""Of the screen: another one may let through what this one does not."""
Look = Literal["seen", "equivalent", "trivial", "broken", "hangs", "conflict"]
LOOKS: Final[Mapping[str, Look]] = {
    "done": "seen", "many": "broken", "slow": "hangs", "died": "broken", "same": "equivalent", "trivial": "trivial",
    "unplanted": "conflict",
}  # fmt: skip
LARGEST_SHARE: Final = 0.2
"""Of the suite that a fault may break, as far as the tests tell that run its lines."""
MOST_TESTS: Final = 60
"""That a fault is tried with."""
CPU_S: Final = 0.7
CPU_SHARE: Final = 2.0
"""How much longer than under coverage the tests of a fault may take, and what they may take more."""
UNBOUND: Final = ("UnboundLocalError", "NameError")


class Heard(Strict):
    """What the box says of one fault."""

    ending: str = Field(pattern=f"^({'|'.join(LOOKS)})$")
    failing: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Screened:
    """How a fault looks: `seen` is one that some tests see; what each of them prints is in `failing`."""

    look: Look
    failing: Mapping[str, str]


async def screen(tree: Tree, coverage: Coverage, box: Box, candidates: Sequence[Candidate]) -> list[Screened]:
    """Try candidates with the tests that run their lines."""
    found: list[Screened] = []
    while len(found) < len(candidates):
        found += await _in_one_box(tree, coverage, box, candidates[len(found) :])
    return found


async def _in_one_box(tree: Tree, coverage: Coverage, box: Box, candidates: Sequence[Candidate]) -> list[Screened]:
    """The candidates that one box could say something of, at least one."""
    ids = [tests_of(candidate) for candidate in candidates]
    order = {
        "paths": sorted({name.partition("::")[0] for some in ids for name in some}),
        "faults": [_fault(candidate, some, coverage) for candidate, some in zip(candidates, ids, strict=True)],
    }
    job = Job(source=PROGRAM, files=tree.files, stdin=json.dumps(order).encode(), preload=PRELOAD, limits=LIMITS)
    outcome = await box.run(job)
    heard = [Heard.model_validate_json(line) for line in outcome.answer.split(b"\n")[:-1]]
    found = [_screened(each) for each in heard]
    if len(found) < len(candidates) and outcome.ending == "exited":
        last = outcome.stderr[-600:].decode(errors="replace")
        raise SandboxError(
            f"package {tree.package.name!r}: a screen ended after {len(found)} of {len(candidates)} faults "
            f"with exit code {outcome.exit_code}: {last}"
        )
    return found if len(found) == len(candidates) else [*found, Screened(look="hangs", failing={})]


def tests_of(candidate: Candidate) -> tuple[str, ...]:
    """Tests that run the faults, as many of each as there is room for, from all over the suite."""
    share = MOST_TESTS // len(candidate.sites)
    return tuple(
        dict.fromkeys(name for site in candidate.sites for name in site.tests[:: -(-len(site.tests) // share)])
    )


def _fault(candidate: Candidate, ids: Sequence[str], coverage: Coverage) -> dict[str, object]:
    files = {site.file for site in candidate.sites}
    num_running = min(len(coverage.ids), sum(site.num_tests for site in candidate.sites))
    return {
        "edits": {
            file: [[edit.start, edit.end, edit.after] for site in candidate.sites if site.file == file
                   for edit in site.mutation.edits] for file in sorted(files)
        },
        "functions": {
            file: [site.mutation.function for site in candidate.sites if site.file == file] for file in sorted(files)
        },
        "ids": list(ids),
        "most_failing": math.floor(LARGEST_SHARE * len(coverage.ids) * len(ids) / num_running),
        "cpu_s": CPU_S + CPU_SHARE * sum(coverage.seconds[name] for name in ids),
    }  # fmt: skip


def _screened(heard: Heard) -> Screened:
    look = LOOKS[heard.ending]
    if look == "seen" and not heard.failing:
        look = "equivalent"
    if look == "seen" and all(any(word in said for word in UNBOUND) for said in heard.failing.values()):
        look = "trivial"
    return Screened(look=look, failing=heard.failing if look == "seen" else {})
