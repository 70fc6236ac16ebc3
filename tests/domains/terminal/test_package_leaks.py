"""An agent that looks for the answer of a package's task does not find it, and one that forges a pass gets nothing.

The right code has a number that stands nowhere else, and so has a hidden test; the adversary looks for them
in every file that it can read, compressed or not, in git's objects, and in what it can see of processes and mounts.
"""

import pytest

from burnish.data.packages.catalogue import lay_out
from burnish.data.packages.copies import tails
from burnish.data.packages.trial import PlantedFault, Trial
from burnish.domains.terminal import package_tasks
from burnish.domains.terminal.oracle import create, shell, submit
from burnish.domains.terminal.spec import TerminalTask
from burnish.domains.terminal.store import open_store
from burnish.domains.terminal.store_writer import writing
from tests.data.packages import tiny
from tests.data.packages.faults import edit_of
from tests.domains.terminal.solving import outcome

ANSWER, HIDDEN = "48151623", "16234842"
CORE = f"def scaled(value):\n    return value * {ANSWER}\n\n\ndef plain(value):\n    return value\n"
TESTS = f"""from tiny.core import plain, scaled


def test_shown():
    assert scaled(2) > 90000000


def test_hidden():
    assert scaled({HIDDEN}) == {int(ANSWER) * int(HIDDEN)}


def test_plain():
    assert plain(3) == 3
"""
SDIST = {
    "src/tiny/__init__.py": "",
    "src/tiny/core.py": CORE,
    "src/tiny/core.py.orig": CORE,
    "src/tiny/__pycache__/core.cpython-311.pyc": CORE,
    "src/tiny.egg-info/RECORD": CORE,
    "src/tiny/core.pyc": CORE,
    "tests/test_core.py": TESTS,
    ".coverage": CORE,
    ".git/objects/ab/cdef": CORE,
    "build/lib/tiny/core.py": CORE,
}
LOOK = r"""
import glob, os, re, subprocess, zipfile, zlib
words = [b"4815" + b"1623", b"1623" + b"4842"]

def tell(place, content):
    for word in words:
        if word in content:
            print("FOUND", place)

for root in ("/work", "/tmp", "/dev/shm", "/etc", "/store", "/empty", "/var", "/home", "/root", "/opt", "/run", "/srv"):
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            try:
                content = open(path, "rb").read()
            except OSError:
                continue
            tell(path, content)
            if re.search(r"\.(pyc|orig|rej|whl|egg|zip)$|RECORD$|\.coverage$", path):
                print("FOUND", path)
            try:
                tell(path + " (zlib)", zlib.decompress(content))
            except zlib.error:
                pass
            if zipfile.is_zipfile(path):
                print("FOUND", path)
said = subprocess.run("git log --all -p; git stash list -p; git fsck --unreachable --lost-found; git reflog -p --all;"
                      "git count-objects -v; git cat-file --batch-all-objects --batch; cat .git/packed-refs",
                      shell=True, capture_output=True, cwd="/work").stdout
tell("git", said)
for path in glob.glob("/proc/[0-9]*/*") + glob.glob("/proc/[0-9]*/fd/*") + ["/proc/self/mountinfo"]:
    if path.endswith(("environ", "cmdline", "mountinfo")) or "/fd/" in path:
        try:
            tell(path, open(path, "rb", buffering=0).read(1 << 20) if os.path.isfile(path) else b"")
        except OSError:
            pass
print("num commits", subprocess.run("git rev-list --all --count", shell=True, capture_output=True, cwd="/work").stdout)
try:
    import tiny.core, inspect
    print("imported from", tiny.core.__file__)
except ImportError as error:
    print(error)
print("LOOKED")
"""
FORGERIES = {
    "nothing": (),
    "no tests": (shell("rm -rf tests"),),
    "other tests": (shell("printf 'def test_shown(): pass\\ndef test_hidden(): pass\\n' > tests/test_core.py"),),
    "a conftest": (create("conftest.py", "import os\nos._exit(0)\n"),),
    "an exit": (create("tiny/__init__.py", "import os\nos._exit(0)\n"),),
    "a patched runner": (
        create("sitecustomize.py", "import pytest\npytest.main = lambda *a, **k: 0\n"),
        create("tiny/__init__.py", "import _pytest.runner as r\nr.call_runtest_hook = lambda *a, **k: None\n"),
    ),
    "an agreeable value": (
        create("tiny/core.py", "class Yes(int):\n    __eq__ = __gt__ = lambda a, b: True\nscaled = plain = Yes\n"),
    ),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    tree = lay_out(tiny.package(), {name: text.encode() for name, text in SDIST.items()})
    ids = [f"tests/test_core.py::test_{name}" for name in ("shown", "hidden")]
    fault = PlantedFault(
        file="tiny/core.py", kind="off_by_one", function="scaled", line=2,
        edits=(edit_of(CORE, ANSWER, "40000000"),),
    )  # fmt: skip
    trial = Trial(
        key="a1b2c3d4", status="kept", faults=(fault,), failing=tuple(ids), passing=("tests/test_core.py::test_plain",),
        hidden=(ids[1],),
    )  # fmt: skip
    path = tmp_path_factory.mktemp("tasks") / "store"
    with writing(path) as writer:
        writer.add("train", package_tasks.task_of(tree, trial, writer.add_base(tree.files)))
    store = open_store(path)
    task = store.task("train", 0)
    return task, store.base_folder(task.base)


def test_the_answer_is_nowhere_that_an_agent_can_look(outdoors, made):
    task, base = made
    _, said = outdoors.run(
        outcome(outdoors.backend, task, (create("/tmp/look.py", LOOK), shell("python3 /tmp/look.py")), base)
    )
    assert "LOOKED" in said and "num commits b'1" in said and "FOUND" not in said, said
    planted = (shell("mkdir -p old; git show HEAD:tiny/core.py | sed s/40000000/4815''1623/ > old/c.py"),)
    looks = (*planted, create("/tmp/look.py", LOOK), shell("python3 /tmp/look.py"))
    assert "FOUND /work/old/c.py" in outdoors.run(outcome(outdoors.backend, task, looks, base))[1]


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_pass_is_worth_nothing(outdoors, made, name):
    task, base = made
    score, said = outdoors.run(outcome(outdoors.backend, task, (*FORGERIES[name], submit()), base))
    assert score == 0.0, said


def test_the_oracle_solves_it(outdoors, made):
    task, base = made
    assert outdoors.run(outcome(outdoors.backend, task, task.oracle, base))[0] == 1.0


def test_a_task_of_a_store_has_neither_answer_nor_hidden_test_in_what_is_laid_out(made):
    task, _ = made
    assert isinstance(task, TerminalTask)
    told = task.instruction + "".join(task.files.values()) + "".join(task.setup)
    assert ANSWER not in told and HIDDEN not in told


def test_a_copy_is_known_by_the_ends_of_its_paths():
    tree = lay_out(tiny.package(), {name: text.encode() for name, text in SDIST.items()})
    assert tails(tree) == ["tiny/__init__.py", "tiny/core.py"]
    one = {"tiny.py": b"x = 1\n", "tests/test_core.py": b""}
    alone = lay_out(tiny.package(moves={"tiny.py": "tiny.py", "tests": "tests"}), one)
    assert tails(alone) == ["tiny.py"]
