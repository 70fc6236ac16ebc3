"""An agent that looks for the answer of a package's task does not find it, and one that forges a pass gets nothing.

The right code has a number that stands nowhere else, and so has a hidden test; the adversary looks for them
in every file that it can read, compressed or not, in git's objects, and in what it can see of processes and mounts.
"""

import pytest

from burnish.data.packages.catalogue import lay_out
from burnish.data.packages.copies import tails
from burnish.domains.terminal.oracle import create, shell, submit
from burnish.domains.terminal.spec import TerminalTask
from tests.data.packages import tiny
from tests.domains.terminal.leaks import ANSWER, FORGERIES, HIDDEN, SDIST
from tests.domains.terminal.solving import outcome

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
