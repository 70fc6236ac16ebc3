"""A small package with a suite, as an sdist and as a tree, and stand-ins for the sandbox that run it here."""

import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from typing import Any

from burnish.data.packages.catalogue import Package, Tree, lay_out
from burnish.data.packages.survey import Line, Survey
from burnish.sandbox import Job, Outcome
from burnish.sandbox.types import Ending

CORE = '''"""Small sums."""


def clamp(value, low, high):
    """Keep a value between two bounds."""
    if value < low:
        return low
    if value > high:
        return high
    return value


class Bag:
    def __init__(self):
        self.items = []

    def add(self, item, count=1):
        for _ in range(count):
            self.items.append(item)
        return len(self.items)

    def most(self):
        best = None
        for item in self.items:
            if best is None or self.items.count(item) > self.items.count(best):
                best = item
        return best


def mean(values):
    total = 0
    for value in values:
        total += value
    return total / len(values)
'''
CASES = {
    "test_low": "clamp(1, 2, 5) == 2",
    "test_high": "clamp(9, 2, 5) == 5",
    "test_between": "clamp(3, 2, 5) == 3",
    "test_edges": "[clamp(2, 2, 5), clamp(5, 2, 5)] == [2, 5]",
    "test_mean": "mean([1, 2, 6]) == 3",
    "test_mean_of_one": "mean([4]) == 4",
    "TestBag::test_add": "Bag().add('a') == 1",
    "TestBag::test_add_three": "Bag().add('a', 3) == 3",
    "TestBag::test_most_of_none": "Bag().most() is None",
    "TestBag::test_most": "[bag := Bag(), bag.add('a'), bag.add('b', 2), bag.most()][-1] == 'b'",
    "TestBag::test_first_of_equals": "[bag := Bag(), bag.add('a'), bag.add('b'), bag.most()][-1] == 'a'",
}
CASES |= {f"test_number_{number}": f"{number} + 1 > {number}" for number in range(30)}
"""Most of the suite is of something else, so that no fault breaks more than a fifth of it."""


def _suite() -> str:
    plain = [f"def {name}():\n    assert {case}\n" for name, case in CASES.items() if "::" not in name]
    inner = [
        f"    def {name.partition('::')[2]}(self):\n        assert {case}\n"
        for name, case in CASES.items()
        if "::" in name
    ]
    return "\n\n".join(["from tiny.core import Bag, clamp, mean\n", *plain, "class TestBag:\n" + "\n".join(inner)])


SDIST = {
    "src/tiny/__init__.py": "",
    "src/tiny/core.py": CORE,
    "src/tiny/__pycache__/core.cpython-311.pyc": "x",
    "tests/test_core.py": _suite(),
    "tests/data.txt": "1\n",
    "pytest.ini": "[pytest]\naddopts = --cov\n",
    "PKG-INFO": "Name: tiny\n",
}
IDS = tuple(f"tests/test_core.py::{name}" for name in CASES)


def package(sha256: str = "0" * 64, **changed: object) -> Package:
    values = {
        "name": "tiny", "version": "1.0", "file": "tiny-1.0.tar.gz", "sha256": sha256, "licence": "MIT",
        "modules": ["tiny"], "moves": {"src/tiny": "tiny", "tests": "tests"},
    }  # fmt: skip
    return Package.model_validate(values | changed)


def tree(**changed: object) -> Tree:
    return lay_out(package(**changed), {name: text.encode() for name, text in SDIST.items()})


def archive(files: Mapping[str, str] = SDIST) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(f"tiny-1.0/{name}")
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
        link = tarfile.TarInfo("tiny-1.0/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
        out = tarfile.TarInfo("tiny-1.0/../../out")
        tar.addfile(out)
    return buffer.getvalue()


def survey() -> Survey:
    """Every test of the package runs every line of it, as far as a candidate must know."""
    own = [number for number, name in enumerate(CASES) if "number" not in name]
    lines = [Line(file="tiny/core.py", line=line, num=len(own), tests=own) for line in range(1, CORE.count("\n") + 1)]
    return Survey(ids=list(IDS), seconds=[0.01] * len(IDS), num_unstable=0, lines=lines)


class RunsHere:
    """A runner of tests that evaluates the cases, and counts how often it was asked."""

    def __init__(self) -> None:
        self.num_asked = 0

    async def __call__(
        self, files: Mapping[str, bytes], ids: Sequence[str], wall_s: float
    ) -> Mapping[str, bool] | None:
        self.num_asked += 1
        space: dict[str, object] = {}
        exec(files["tiny/core.py"].decode(), space)
        return {name: _holds(CASES[name.partition("::")[2]], space) for name in ids}


def _holds(case: str, space: dict[str, object]) -> bool:
    try:
        return bool(eval(case, space))
    except Exception:  # noqa: BLE001 - a planted fault may raise anything
        return False


class ScreensHere:
    """A box that screens faults as the program inside does, by evaluating the cases; it notes how many it was asked."""

    isolation = "none"

    def __init__(self, dies_at: int = -1) -> None:
        self.num_screened = 0
        self._dies_at = dies_at

    async def run(self, job: Job) -> Outcome:
        lines: list[str] = []
        for fault in json.loads(job.stdin)["faults"]:
            if self.num_screened == self._dies_at:
                self._dies_at = -1
                return self._outcome("over_memory", lines)
            self.num_screened += 1
            lines.append(json.dumps(_screened(fault)) + "\n")
        return self._outcome("exited", lines)

    def _outcome(self, ending: Ending, lines: Sequence[str]) -> Outcome:
        return Outcome(
            ending=ending, exit_code=0 if ending == "exited" else None, stdout=b"", stderr=b"",
            answer="".join(lines).encode(), wall_s=0.0,
        )  # fmt: skip

    async def stop(self) -> None:
        return


def _screened(fault: dict[str, Any]) -> dict[str, Any]:
    text = CORE.encode()
    for start, end, after in sorted(fault["edits"]["tiny/core.py"], reverse=True):
        text = text[:start] + after.encode() + text[end:]
    space: dict[str, object] = {}
    exec(text, space)
    failing = {
        name: "tests/test_core.py:7: in test\n    assert " + CASES[name.partition("::")[2]]
        + "\ntiny/core.py:6: in clamp\n    if value <= low:\nE   AssertionError: assert 3 == 2"
        for name in fault["ids"] if not _holds(CASES[name.partition("::")[2]], space)
    }  # fmt: skip
    if len(failing) > fault["most_failing"]:
        return {"ending": "many", "failing": {}}
    return {"ending": "done", "failing": failing}
