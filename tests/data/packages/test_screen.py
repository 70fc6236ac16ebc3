"""The program that screens faults, run for real in the sandbox; and what is made of a box that dies."""

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from burnish.data.mutations.edits import Mutation
from burnish.data.mutations.find import mutations
from burnish.data.packages.catalogue import Tree
from burnish.data.packages.screen import Screened, screen
from burnish.data.packages.sites import Candidate, Site
from burnish.data.packages.survey import Coverage, coverage
from burnish.domains.terminal import package_tasks
from burnish.sandbox import missing, open_box
from tests.data.packages import tiny
from tests.data.packages.faults import edit_of

isolates = pytest.mark.skipif(bool(missing()), reason="this host cannot isolate")
OWN = tuple(name for name in tiny.IDS if "number" not in name)
COUNTER = """

def counter():
    seen = []

    def count(item):
        total = 0
        while total < len(seen):
            total += 1
        seen.append(item)
        return total + 1

    return count


COUNT = counter()
"""
COUNT_TEST = "\nfrom tiny.core import COUNT\n\ndef test_count():\n    assert COUNT('a') < COUNT('b')\n"


def lines() -> Coverage:
    return coverage(tiny.survey())


def fault(before: str, after: str, function: str, core: str = tiny.CORE, ids: Sequence[str] = OWN) -> Candidate:
    edit = edit_of(core, before, after)
    line = core.encode()[: edit.start].count(b"\n") + 1
    mutation = Mutation(kind="boolean", function=function, line=line, edits=(edit,))
    return Candidate(sites=(Site(file="tiny/core.py", mutation=mutation, num_tests=len(ids), tests=tuple(ids)),))


def looks(tree: Tree, lines: Coverage, candidates: Sequence[Candidate]) -> list[Screened]:
    async def run() -> list[Screened]:
        async with open_box(num_workers=1) as box:
            return await screen(tree, lines, box, candidates)

    return asyncio.run(run())


@isolates
@pytest.mark.slow
def test_what_faults_look_like_is_told_one_by_one():
    cases = {
        "seen": fault("return low", "return high", "clamp"),
        "equivalent": fault("value < low", "(value < low)", "clamp"),
        "trivial": fault("total = 0\n", "pass\n", "mean"),
        "hangs": fault("if value < low:", "while value:\n        pass\n    if value < low:", "clamp"),
        "conflict": fault("total = 0\n", "total = = 0\n", "mean"),
        "broken": fault("self.items = []", "import os; os._exit(3)", "Bag.__init__"),
    }
    found = looks(tiny.tree(), lines(), list(cases.values()))
    assert [each.look for each in found] == list(cases)
    assert set(found[0].failing) == {"tests/test_core.py::test_low"}
    assert "assert 5 == 2" in found[0].failing["tests/test_core.py::test_low"]


@isolates
@pytest.mark.slow
def test_a_function_within_a_function_that_is_there_since_the_import_is_faulty_too():
    core = tiny.CORE + COUNTER
    sdist = tiny.SDIST | {"src/tiny/core.py": core, "tests/test_core.py": tiny.SDIST["tests/test_core.py"] + COUNT_TEST}
    files = {name.removeprefix("src/"): text.encode() for name, text in sdist.items() if name.endswith(".py")}
    tree = Tree(package=tiny.package(), files=files)
    survey = tiny.survey()
    ids = ["tests/test_core.py::test_count"]
    survey = survey.model_copy(update={"ids": survey.ids + ids, "seconds": [0.01] * (len(survey.ids) + 1)})
    wrong = fault("return total + 1", "return 1", "counter.<locals>.count", core, ids)
    assert looks(tree, coverage(survey), [wrong])[0].look == "seen"


@isolates
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_screen_says_what_clean_runs_say():
    tree, known = tiny.tree(), lines()
    candidates = [
        Candidate(sites=(Site(file="tiny/core.py", mutation=each, num_tests=len(OWN), tests=OWN),))
        for each in mutations(tiny.CORE)[::4]
    ]

    async def both() -> list[tuple[Screened, Mapping[str, bool] | None]]:
        async with open_box(num_workers=1) as box:
            run = package_tasks.runner(tree, box)
            found = await screen(tree, known, box, candidates)
            clean: list[Mapping[str, bool] | None] = []
            for one in candidates:
                changed = one.changed(tree.sources)
                assert changed is not None
                clean.append(await run({**tree.files, "tiny/core.py": changed["tiny/core.py"].encode()}, OWN, 60.0))
            return list(zip(found, clean, strict=True))

    compared = asyncio.run(both())
    assert sum(found.look == "seen" for found, _ in compared) >= 3
    for found, passed in compared:
        if found.look in ("seen", "equivalent"):
            assert passed is not None
            assert {name for name, has_passed in passed.items() if not has_passed} == set(found.failing)


def test_a_box_that_dies_costs_one_fault_and_another_takes_the_rest():
    candidates = [fault("return low", text, "clamp") for text in ("return high", "return value", "return None")]
    box = tiny.ScreensHere(dies_at=1)
    found = asyncio.run(screen(tiny.tree(), lines(), box, candidates))
    assert [each.look for each in found] == ["seen", "hangs", "seen"]
    assert box.num_screened == 2
