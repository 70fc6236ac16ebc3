"""Ranges of users for an ordinary user's jobs: how they are found, and that no process of a job is the caller's."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from burnish.sandbox import host, subordinate
from burnish.sandbox.inside import user_maps

PYTHON = "/usr/bin/python3"
NOBODY = 65534
FIRST = 700_000


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("me:100000:65536\n", (100000, 65536)),
        ("4242:100000:65536\n", (100000, 65536)),
        ("you:1:65536\nme:100000:2000\nme:300000:65536\n", (300000, 65536)),
        ("me:100000:10\n", None),
        ("me:x:65536\nme\n\nme:1\n#", None),
        ("you:100000:65536\n", None),
    ],
)
def test_the_longest_range_of_the_user_by_name_or_number_counts(text: str, found, tmp_path: Path) -> None:
    (tmp_path / "subuid").write_text(text.replace("me:", "4242:"))
    assert subordinate._range(tmp_path / "subuid", 4242) == found
    assert subordinate._range(tmp_path / "none", 4242) is None


def test_what_only_its_owner_may_read_is_nothing_for_other_users(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for mode, is_for_all in ((0o644, True), (0o640, False)):
        (tmp_path / "file").chmod(mode)
        assert subordinate._is_for_all(str(tmp_path / "file")) is is_for_all
    tmp_path.chmod(0o754)
    assert not subordinate._is_for_all(str(tmp_path))


def test_root_has_no_use_for_a_range() -> None:
    if os.getuid() != 0:
        pytest.skip("this whole run is an ordinary user's")
    assert host.identity_mode() != "range" and host.plan(-1, ()).ranges is None


def test_a_range_that_is_refused_is_an_error_that_names_it() -> None:
    if os.getuid() != 0:
        pytest.skip("this whole run is an ordinary user's")
    ranges = user_maps.Ranges(first_uid=5, first_gid=5, count=7, newuidmap="/bin/false", newgidmap="/bin/false")
    child = os.fork()
    if child == 0:
        try:
            user_maps.become_root_of_range(ranges)
        except OSError as error:
            os._exit(3 if "no range from 5 on, 7 long" in str(error) else 4)
        os._exit(5)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3


AS_ROOT = """
import os, sys
from burnish.sandbox.inside import kernel
kernel.unshare(kernel.CLONE_NEWNS)
kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
for name in ("subuid", "subgid"):
    kernel.mount(sys.argv[1], "/etc/" + name, None, kernel.MS_BIND)
os.setgroups([])
os.setgid({nobody})
os.setuid({nobody})
os.chdir("/")
os.execve({python!r}, [{python!r}, "-c", sys.argv[2]], dict(os.environ))
"""
AS_NOBODY = """
import asyncio, json, os
from pathlib import Path
from burnish.sandbox import Job, ResourceLimits, host, open_box, walls

def below():
    parents, uids = {}, {}
    for path in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
        except OSError:
            continue
        pid = int(path.parent.name)
        parents[pid], uids[pid] = int(fields["PPid"]), set(map(int, fields["Uid"].split()))
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return set.union(*(uids[pid] for pid in found))

SOURCE = '''
import os, time
open("file", "w").close()
print(os.getuid(), os.stat("file").st_uid, os.stat("/work").st_uid, end="")
try:
    os.setuid(0)
    print(" became root")
except OSError:
    pass
os.kill(os.getpid(), 0)
time.sleep(1.5)
'''

async def main():
    async with open_box(num_workers=2) as box:
        job = Job(source=SOURCE, limits=ResourceLimits(wall_s=30.0))
        running = [asyncio.ensure_future(box.run(job)) for _ in range(2)]
        await asyncio.sleep(1.0)
        seen = sorted(below())
        outcomes = await asyncio.gather(*running)
        bomb = "import os\\nfor _ in range(50): os.fork()"
        forked = await box.run(Job(source=bomb, limits=ResourceLimits(num_processes=4)))
    wall = [layer for layer in walls.all_layers() if layer.name == "uid"][0]
    print(json.dumps({
        "mode": host.identity_mode(), "uid": os.getuid(), "outside": seen,
        "active": wall.is_active, "state": wall.state,
        "inside": [one.stdout.decode() for one in outcomes], "stderr": [one.stderr.decode() for one in outcomes],
        "forked": forked.stderr.decode(),
    }))

asyncio.run(main())
"""


@pytest.mark.slow
def test_jobs_of_an_ordinary_user_have_users_of_their_own_outside(open_to_all: Path) -> None:
    if os.getuid() != 0 or not all(map(shutil.which, ("newuidmap", "newgidmap"))):
        pytest.skip("needs root, to become an ordinary user, and the package uidmap")
    if not all(Path(f"/etc/{name}").exists() for name in ("subuid", "subgid")):
        pytest.skip("no /etc/subuid to put another over, in a mount namespace of its own")
    ranges = open_to_all / "ranges"
    ranges.write_text(f"{NOBODY}:{FIRST}:65536\n")
    given = {"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(p for p in sys.path if p), "PYTHONDONTWRITEBYTECODE": "1"}
    rest = {"env": given, "cwd": "/", "capture_output": True, "text": True}
    can_import = [PYTHON, "-c", "import burnish.sandbox"]
    if not Path(PYTHON).exists() or subprocess.run(can_import, user=NOBODY, group=NOBODY, **rest).returncode:
        pytest.skip("no interpreter that an ordinary user can run with this package")
    as_root = AS_ROOT.format(nobody=NOBODY, python=PYTHON)
    done = subprocess.run([PYTHON, "-c", as_root, str(ranges), AS_NOBODY], **rest)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["mode"], said["uid"], said["active"]) == ("range", NOBODY, True) and "65536" in said["state"]
    own = [uid for uid in said["outside"] if FIRST <= uid < FIRST + 65536]
    assert len(own) >= 2 and set(said["outside"]) - set(own) == {NOBODY}
    inside = [text.split() for text in said["inside"]]
    assert all(len(set(words)) == 1 and len(words) == 3 for words in inside), said
    assert {FIRST + int(words[0]) - 1 for words in inside} <= set(own) and inside[0] != inside[1]
    assert "BlockingIOError" in said["forked"]
