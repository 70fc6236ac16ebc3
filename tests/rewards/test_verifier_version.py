"""Edits that a verifier's version must see: however it reaches what it calls."""

import importlib
import sys
from pathlib import Path

import pytest

from burnish.rewards.verifier_version import verifier_version

FILES = {
    "pack/__init__.py": "",
    "pack/dom.py": (
        "import importlib\nimport flat\nfrom . import near\nfrom .low import deep\n"
        "def verify(): return importlib.import_module('pack.late')\n"
    ),
    "pack/near.py": "from ..pack import next_to\n",
    "pack/next_to.py": "",
    "pack/late.py": "",
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
    sys.path.insert(0, str(tmp_path))
    importlib.invalidate_caches()
    yield tmp_path
    sys.path.remove(str(tmp_path))
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize("edited", [name for name in FILES if name not in ("script.py", "pack/words.py")])
def test_an_edit_of_anything_that_a_verifier_imports_is_a_new_version(folder, edited):
    before = verifier_version.__wrapped__("pack.dom")
    (folder / edited).write_text(FILES[edited] + "# edited\n")
    assert before is not None and verifier_version.__wrapped__("pack.dom") != before


def test_a_word_that_only_looks_like_a_module_is_not_run(folder):
    assert verifier_version.__wrapped__("pack.words") is not None and "script" not in sys.modules
