"""Edits that a verifier's version must see: however it reaches what it calls."""

import importlib
import sys
from pathlib import Path

import pytest

from burnish.rewards.verifier_version import environment_version, verifier_version

FILES = {
    "pack/__init__.py": "",
    "pack/dom.py": (
        "import importlib\nimport flat\nfrom pathlib import Path\nfrom . import near\nfrom .low import deep\n"
        "RUN = Path(__file__).with_name('run_it.py')\n"
        "def verify(): return importlib.import_module('pack.late')\n"
    ),
    "pack/near.py": "from ..pack import next_to\n",
    "pack/next_to.py": "",
    "pack/late.py": "",
    "pack/dom_worker.py": "",
    "pack/run_it.py": "",
    "pack/apart.py": "",
    "pack/low/__init__.py": "",
    "pack/low/deep.py": "",
    "flat.py": "import flatter\n",
    "flatter.py": "",
    "script.py": "raise SystemExit('run by a look-up')\n",
    "pack/words.py": "NAMES = ['script.py', 'script.jsonl']\n",
}


@pytest.fixture
def folder(tmp_path: Path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    before = set(sys.modules)
    assert not before & {"pack", "flat", "flatter", "script"}
    sys.path.insert(0, str(tmp_path))
    importlib.invalidate_caches()
    yield tmp_path
    sys.path.remove(str(tmp_path))
    for name in set(sys.modules) - before:
        del sys.modules[name]


UNRELATED = ("script.py", "pack/words.py", "pack/apart.py")


@pytest.mark.parametrize("edited", FILES)
def test_an_edit_of_anything_that_a_verifier_reaches_is_a_new_version(folder, edited):
    before = verifier_version.__wrapped__("pack.dom")
    assert before is not None
    (folder / edited).write_text(FILES[edited] + "# edited\n")
    assert (verifier_version.__wrapped__("pack.dom") != before) == (edited not in UNRELATED)


def test_a_word_that_only_looks_like_a_module_is_not_run(folder):
    assert verifier_version.__wrapped__("pack.words") is not None and "script" not in sys.modules


def test_what_has_no_source_has_no_version():
    assert verifier_version("builtins") is None
    assert verifier_version("no_such_module") is None
    assert len(environment_version()) == 64
