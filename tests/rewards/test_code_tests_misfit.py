"""A tree that no box can hold scores 0: to break the box would otherwise be a way around a bad grade."""

import asyncio

import pytest

from burnish.rewards.code_tests import LIMITS, TestSuite, misfit, verify

SUITE = TestSuite(
    tests={"test_a.py": "def test(): pass"},
    ids=["test_a.py::test"],
    modules=["a"],
    trust="separate",
    framework="unittest",
)
MISFITS = [
    {"a": b"", "a/b.py": b""},
    {"a/b.py": b"", "a//b.py": b""},
    {"n" * 256: b""},
    {"../a": b""},
    {"a\0": b""},
    {"/".join("d" * 199) + f"/{number}": b"" for number in range(11)} | {f"{n}/" * 100 + "f": b"" for n in range(30)},
    {"big": bytes((LIMITS.disk_mb << 19) + 1)},
    {f"{number}": b"x" for number in range(LIMITS.num_files // 2)},
]


@pytest.mark.parametrize("tree", MISFITS, ids=range(len(MISFITS)))
def test_a_tree_that_cannot_be_laid_out_scores_nothing_without_a_box(tree):
    box = None  # which would raise if it were asked
    verdict = asyncio.run(verify(tree, SUITE, box))  # pyright: ignore[reportArgumentType]
    assert (verdict.kind, verdict.score) == ("scored", 0.0) and "tree" in verdict.evidence


def test_a_tree_as_trees_are_fits():
    assert misfit({"src/pack/__init__.py": b"", "src/pack/a.py": b"x = 1\n", "README": b"read me"}, LIMITS) == ""
