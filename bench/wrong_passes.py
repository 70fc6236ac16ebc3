"""The wrong-pass table: dishonest and wrong submissions against our harnesses and against common ways of judging.

`python -m bench.wrong_passes` prints the table of docs/wrong_passes.md, `python -m bench.wrong_passes NAME...` one of
those submissions. A pass is a full score; each run is a fresh job of the sandbox.

One task: `digit_sum(n)`, one example shown, four hidden calls. The corpus is `tests/rewards/dishonest/`: trees of files
whose honest worth is nothing, since no hidden call gets its value. `honest` is the one right submission.
"""

import argparse
import asyncio
import importlib.util
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import wrong_passes_styles
from bench.wrong_passes_styles import Problem
from burnish.core.types import Verdict
from burnish.rewards import code_tests, code_value
from burnish.sandbox import Box, ResourceLimits, open_box

CORPUS: Final = Path(__file__).parents[1] / "tests/rewards/dishonest"
HIDDEN: Final = ((405, 9), (7, 7), (99999, 45), (1000001, 2))
HONEST: Final = {"solution.py": b"def digit_sum(n):\n    return sum(map(int, str(n)))\n"}
TEST: Final = f"""import pytest
from solution import digit_sum

@pytest.mark.parametrize("n,expected", {list(HIDDEN)!r})
def test_digit_sum(n, expected):
    value = digit_sum(n)
    assert value == expected
"""
PROBLEM: Final = Problem(function="digit_sum", calls=HIDDEN, test_file=TEST)
IDS: Final = tuple(f"test_hidden.py::test_digit_sum[{n}-{expected}]" for n, expected in HIDDEN)
OURS: Final = ("by value", "tests, separate", "tests, same interpreter")


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A tree of files, what it tries, and the grade that cannot disprove it."""

    name: str
    what: str
    files: Mapping[str, bytes]
    not_provable: str = ""


def read_corpus(names: Sequence[str] = ()) -> list[Submission]:
    """Read the submissions, all or the named ones."""
    return [_read(path) for path in sorted(CORPUS.glob("*.txt")) if not names or path.stem in names]


def _read(path: Path) -> Submission:
    head, *sections = path.read_text(encoding="utf-8").split("# file: ")
    said = dict(line.removeprefix("# ").split(": ", 1) for line in head.splitlines())
    files: dict[str, bytes] = {}
    for section in sections:
        name, _, text = section.partition("\n")
        files |= (
            _compiled(name.removeprefix("compiled: "), text) if name.startswith("compiled: ") else {name: text.encode()}
        )
    return Submission(name=path.stem, what=said["what"], files=files, not_provable=said.get("not provable", ""))


def _compiled(name: str, text: str) -> dict[str, bytes]:
    """A compiled file that says not to be checked against its source (PEP 552)."""
    code = importlib._bootstrap_external._code_to_hash_pyc(  # type: ignore[attr-defined] # what py_compile calls
        compile(text, name, "exec"), bytes(8), False
    )
    return {importlib.util.cache_from_source(name): bytes(code)}


async def by_value(submission: Submission, box: Box) -> Verdict:
    """Our harness that compares values outside."""
    cases = tuple(code_value.Case(arguments=[n], expected=value) for n, value in HIDDEN)
    task = code_value.CodeTask(function="digit_sum", cases=cases, call_s=0.5)
    return await code_value.verify(task, submission.files["solution.py"].decode(), box)


def suite(trust: code_tests.Trust) -> code_tests.TestSuite:
    """The hidden tests for our harness by tests; a hang ends by processor time, as on a busy machine."""
    limits = ResourceLimits(
        wall_s=300.0, cpu_s=30.0, disk_mb=32, num_files=4096, num_processes=16, output_bytes=1 << 20
    )
    return code_tests.TestSuite(
        tests={"test_hidden.py": TEST}, ids=IDS, modules=("solution",), trust=trust, limits=limits,
        test_cpu_s=0.5, test_wall_s=60.0,
    )  # fmt: skip


async def judge_all(submission: Submission, box: Box) -> dict[str, float]:
    """The score of a submission under each way of judging; a verdict without a score counts as none."""
    verdicts = {
        "by value": await by_value(submission, box),
        "tests, separate": await code_tests.verify(submission.files, suite("separate"), box),
        "tests, same interpreter": await code_tests.verify(submission.files, suite("same_interpreter"), box),
    }
    scores = {name: verdict.score or 0.0 for name, verdict in verdicts.items()}
    return scores | {
        name: float(passed)
        for name, passed in (await wrong_passes_styles.judge(PROBLEM, submission.files, box)).items()
    }


def table(rows: Mapping[str, Mapping[str, float]]) -> str:
    """The table in Markdown: `PASS` for a full score, the score where it is something else than 0."""
    names = list(next(iter(rows.values())))
    lines = ["| submission | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for submission, scores in rows.items():
        lines.append(f"| `{submission}` | " + " | ".join(_cell(scores[name]) for name in names) + " |")
    passes = [sum(scores[name] == 1 for scores in rows.values()) for name in names]
    lines.append(f"| **wrong passes of {len(rows)}** | " + " | ".join(f"**{num}**" for num in passes) + " |")
    return "\n".join(lines)


def _cell(score: float) -> str:
    return "PASS" if score == 1 else "" if score == 0 else f"{score:.2g}"


async def main(names: Sequence[str], keep: Path) -> None:
    """Judge the corpus and print the table; rows that `keep` has already are not judged again."""
    rows: dict[str, dict[str, float]] = {}
    if keep.exists():
        rows = dict(json.loads(line) for line in keep.read_text(encoding="utf-8").splitlines())
    corpus = read_corpus(names)
    async with open_box(num_workers=1) as box:
        for submission in [Submission(name="honest", what="is right", files=HONEST), *corpus]:
            if submission.name not in rows:
                rows[submission.name] = await judge_all(submission, box)
                with keep.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([submission.name, rows[submission.name]]) + "\n")
    print("The honest one:", rows["honest"], "\n")
    print(table({one.name: rows[one.name] for one in corpus}))
    print("\n" + "\n".join(f"- `{one.name}` {one.what}" for one in corpus))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="submissions of tests/rewards/dishonest; all if none is named")
    parser.add_argument("--keep", type=Path, default=Path(os.devnull), help="a file for the rows, to go on from")
    given = parser.parse_args()
    asyncio.run(main(given.names, given.keep))
