"""What a package becomes before anything of it runs: catalogue, archive, hidden tests, issues."""

import ast
import hashlib
from random import Random

import pytest

from burnish.core.errors import ConfigError
from burnish.data.packages import fetch
from burnish.data.packages.catalogue import lay_out, read_catalogue
from burnish.data.packages.hidden import hide, without
from burnish.data.packages.issue import FORMS, forms, issue
from tests.data.packages import tiny

NOWHERE = "http://127.0.0.1:9/simple"
SAID = (
    "tests/test_core.py:7: in test_low\n    assert clamp(1, 2, 5) == 2\ntiny/core.py:6: in clamp\n    return low + 1\n"
    "E   AssertionError: assert 3 == 2\nE    +  where 3 = clamp(1, 2, 5)"
)


def test_the_catalogue_has_a_dozen_packages_and_some_are_held_out():
    packages = read_catalogue()
    held_out = [package.name for package in packages if package.is_held_out]
    assert len(packages) - len(held_out) >= 12 and len(held_out) >= 2
    assert all(package.file.endswith(".tar.gz") and package.version in package.file for package in packages)
    with pytest.raises(ConfigError, match=r"no package 'toolzz' in .*toolz"):
        read_catalogue(only=["toolzz"])


def test_a_tree_has_code_and_suite_and_nothing_else():
    tree = tiny.tree()
    assert sorted(tree.files) == ["tests/data.txt", "tests/test_core.py", "tiny/__init__.py", "tiny/core.py"]
    assert list(tree.sources) == ["tiny/__init__.py", "tiny/core.py"] and tree.data == {"tests/data.txt": "1\n"}
    with pytest.raises(ConfigError, match="find no code or no tests"):
        lay_out(tiny.package(moves={"lib": "tiny"}), {name: text.encode() for name, text in tiny.SDIST.items()})


def test_an_sdist_in_the_cache_needs_no_index_if_its_hash_is_right(tmp_path):
    content = tiny.archive()
    (tmp_path / "tiny-1.0.tar.gz").write_bytes(content)
    package = tiny.package(hashlib.sha256(content).hexdigest())
    assert fetch.sdist(package, tmp_path, NOWHERE) == {name: text.encode() for name, text in tiny.SDIST.items()}
    with pytest.raises(ConfigError, match=r"cannot get .*put tiny-1\.0\.tar.gz into the folder"):
        fetch.sdist(tiny.package("1" * 64), tmp_path, NOWHERE)


def test_half_of_the_failing_functions_are_hidden_and_the_rest_still_parses():
    failing = [name for name in tiny.IDS if "most" in name] + [
        "tests/test_core.py::test_mean[1]",
        "tests/test_core.py::test_mean[2]",
    ]
    hidden = hide(failing, Random(1))
    assert len(hidden) == 2 and hidden == hide(failing, Random(1))
    (text,) = without(tiny.tree().tests, hidden).values()
    left = {node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)}
    assert {name.rpartition("::")[2] for name in tiny.IDS} - left == {name.rpartition("::")[2] for name in hidden}
    assert hide(["a::b[1]", "a::b[2]"], Random(1)) == frozenset()


def test_a_class_that_lost_all_tests_keeps_a_pass():
    source = "import x\nclass A:\n    @x.y(\n        1)\n    def test_a(self):\n        pass\n\n"
    source += "    def test_b(self): pass\n\nz = 1\n"
    (text,) = without({"t.py": source}, {"t.py::A::test_a", "t.py::A::test_b"}).values()
    ast.parse(text)
    assert "test_" not in text and "@x" not in text and "z = 1" in text


@pytest.mark.parametrize("form", FORMS)
def test_an_issue_names_neither_the_fault_nor_what_it_was(form):
    text = issue(
        form, "12ab", "tiny", {"tests/test_core.py::test_low": SAID}, 2, {"return low + 1", "return low"}, "run"
    )
    assert "return low" not in text and "core.py:6" not in text and "12ab" in text and "`run`" in text
    assert ("assert 3 == 2" in text) == (form != "vague") and ("test_low" in text) == (form == "traceback")
    assert ("clamp" in text) == (form != "vague")


def test_without_a_telling_report_an_issue_is_vague():
    assert forms({"a": SAID}, set()) == FORMS
    assert forms({"a": "tests/test_core.py:7: in test_low\n    x"}, set()) == forms({}, set()) == ("vague",)
    assert forms({"a": SAID}, {"assert 3", "where 3"}) == ("vague",)
