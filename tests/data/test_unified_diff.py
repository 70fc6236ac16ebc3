"""Diffs are applied exactly, both ways, and refused where they do not fit."""

import difflib
from random import Random

import pytest

from burnish.core.errors import ConfigError
from burnish.data.unified_diff import apply

OLD = "".join(f"line {number}\n" for number in range(30))


def diff_of(old: str, new: str, name: str = "a.py") -> str:
    lines = difflib.unified_diff(old.splitlines(True), new.splitlines(True), f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


@pytest.mark.parametrize("seed", range(20))
def test_what_difflib_says_of_two_texts_makes_one_of_the_other(seed):
    rng, lines = Random(seed), OLD.splitlines(keepends=True)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(lines))
        lines[at : at + rng.randint(0, 2)] = [f"new {rng.random()}\n"] * rng.randint(0, 2)
    lines[:0] = ["first\n"]
    new = "".join(lines).removesuffix("\n" if seed % 2 else "")
    diff = diff_of(OLD, new)
    assert apply({"a.py": OLD}, diff) == {"a.py": new}
    assert apply({"a.py": new}, diff, reverse=True) == {"a.py": OLD}


def test_files_come_and_go():
    diff = "diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1,2 @@\n+a\n+b\n"
    assert apply({}, diff) == {"x": "a\nb\n"}
    assert apply({"x": "a\nb\n"}, diff, reverse=True) == {"x": None}


def test_two_files_and_a_minus_line_that_looks_like_a_header():
    tree = {"a": "-- old\nz\n", "b": "1\n"}
    diff = "--- a/a\n+++ b/a\n@@ -1,2 +1,1 @@\n--- old\n z\n--- a/b\n+++ b/b\n@@ -1 +1 @@\n-1\n+2\n"
    assert apply(tree, diff) == {"a": "z\n", "b": "2\n"}


@pytest.mark.parametrize(
    ("diff", "why"),
    [
        (diff_of(OLD, OLD.replace("line 5", "five")), "hunk 1 of 'a.py', line 3"),
        ("--- a/b.py\n+++ b/b.py\n@@ -1 +1 @@\n-x\n+y\n", "'b.py', which the tree does not have"),
        ("--- a/a.py\n+++ b/a.py\n@@ -1,3 +1 @@\n-x\n", "lines are missing"),
        ("rename from a.py\n", "not covered"),
        ("hello\n", "no unified diff"),
    ],
)
def test_what_does_not_fit_is_refused(diff, why):
    with pytest.raises(ConfigError, match=why):
        apply({"a.py": OLD.replace("line 6", "six")}, diff)
