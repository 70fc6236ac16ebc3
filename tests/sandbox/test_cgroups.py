"""Control groups: found in each arrangement, limits that bite, counts that tell, nothing left.

Version 2 with controllers is tested against folders of plain files; the rest in the groups of this host.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from burnish.sandbox import cgroups

V1 = "30 20 0:9 / {at}/memory rw - cgroup cgroup rw,memory\n31 20 0:10 / {at}/pids rw - cgroup cgroup rw,pids\n"
V2 = "32 20 0:11 / {at}/unified rw - cgroup2 cgroup2 rw\n"
HOG = "import time\nx = bytearray(b'x') * (200 << 20)\ntime.sleep(60)"


def a_host(folder: Path, mounts: str, own: str) -> Path:
    """Write what /proc/self says on some host whose hierarchies lie in `folder`."""
    for name in ("memory/a/b", "pids/a/b", "unified/a/b"):
        (folder / name).mkdir(parents=True)
        (folder / name / "cgroup.procs").touch()
    (folder / "unified/a/b/cgroup.subtree_control").write_text("cpu memory pids\n")
    (folder / "unified/a/b/cgroup.events").touch()
    (folder / "unified/a/b/cgroup.kill").touch()
    (folder / "mountinfo").write_text(mounts.format(at=folder))
    (folder / "cgroup").write_text(own)
    return folder


@pytest.mark.parametrize(
    ("mounts", "own", "kind", "abilities"),
    [
        (V1, "2:memory:/a/b\n3:pids:/a/b\n", "v1", {"memory", "pids"}),
        (V2, "0::/a/b\n", "v2", {"memory", "pids", "cpu", "cpuacct", "kill"}),
        (V1 + V2, "2:memory:/a/b\n3:pids:/a/b\n0::/a/b\n", "hybrid", {"memory", "pids", "cpu", "cpuacct", "kill"}),
        ("", "", "none", set()),
    ],
)
def test_each_arrangement_is_named_and_gives_what_it_can(tmp_path, mounts, own, kind, abilities):
    found = cgroups.trees(a_host(tmp_path, mounts, own))
    assert cgroups.layout(found) == kind and cgroups.usable(found).keys() == abilities
    assert all(str(tree.folder).endswith("/a/b") for tree in found)


def test_limits_of_version_2_include_swap_and_are_written_only_where_a_file_is(tmp_path):
    able = cgroups.usable(cgroups.trees(a_host(tmp_path, V2, "0::/a/b\n")))
    group = cgroups.Group(able, "g")
    folder = tmp_path / "unified/a/b/g"
    for name in ("memory.max", "memory.swap.max"):
        (folder / name).touch()
    group.limit(1 << 20, 7)
    assert (folder / "memory.max").read_text() == "1048576" and (folder / "memory.swap.max").read_text() == "0"
    assert not (folder / "pids.max").exists()


def test_a_delegated_folder_takes_the_place_of_our_own(tmp_path, monkeypatch):
    monkeypatch.setenv(cgroups.DELEGATED, str(tmp_path / "unified/a/b"))
    (tree,) = cgroups.trees(a_host(tmp_path, V2, "0::/elsewhere\n"))
    assert tree.folder == tmp_path / "unified/a/b" and tree.controllers == {"cpu", "memory", "pids"}


@pytest.fixture
def group():
    able = cgroups.usable(cgroups.trees())
    if "memory" not in able:
        pytest.skip(f"no control group with a memory limit can be made here: {sorted(able)}")
    group = cgroups.make_group(999, able)
    assert group is not None
    yield group
    group.kill()
    group.close()
    assert not any((tree.folder / group.name).exists() for tree in able.values())


def test_a_memory_limit_kills_and_the_kill_is_counted(group):
    group.limit(64 << 20, 20)
    program = f"import sys; sys.stdin.read(1)\n{HOG}"
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", program], stdin=subprocess.PIPE) as hog:
        group.add(hog.pid)
        assert group.num_memory_kills() == 0
        hog.communicate(b"x", timeout=60)
    assert hog.returncode == -9 and group.num_memory_kills() == 1 and (group.cpu_s() or 0) > 0


def test_limits_may_be_raised_and_lowered(group):
    for megabytes in (64, 512, 32):
        group.limit(megabytes << 20, 20)


def test_a_group_that_a_killed_run_left_is_removed_and_a_live_ones_is_not(group):
    no_pid = 2**22 + 1  # beyond the largest that a kernel gives
    found = cgroups.trees()
    stale = next(iter(cgroups.usable(found).values())).folder / f"burnish-{no_pid}-1-{os.getpid()}"
    stale.mkdir()
    cgroups.remove_stale(found)  # as another process may at the same time, of which each finds only some
    assert not stale.exists() and all((tree.folder / group.name).exists() for tree in cgroups.usable(found).values())


def test_a_job_that_outgrows_its_group_is_over_memory(run):
    if "memory" not in cgroups.usable(cgroups.trees()):
        pytest.skip("no control group with a memory limit can be made here")
    source = (
        "import os, time\nfor _ in range(2): os.fork()\nx = bytearray(os.urandom(1 << 10)) * (100 << 10)\ntime.sleep(9)"
    )
    assert run(source, wall_s=15.0, memory_mb=100).ending == "over_memory"


def test_a_job_has_one_share_of_the_processors_whatever_sessions_it_opens(run):
    tree = cgroups.usable(cgroups.trees()).get("cpu")
    if tree is None:
        pytest.skip("no control group with a share of the processors can be made here")
    assert run("import os; os.fork() or os.setsid()").ending == "exited"
    name = "cpu.weight" if tree.is_v2 else "cpu.shares"
    ours = list(tree.folder.glob(f"burnish-{os.getpid()}-*"))
    shares = {int((folder / name).read_text()) for folder in ours}
    assert shares == {cgroups.CPU_WEIGHT if tree.is_v2 else cgroups.CPU_SHARES}
    assert any((folder / "cgroup.procs").read_text() for folder in ours)


def test_the_processor_time_of_a_job_is_told(run):
    outcome = run("import time\nwhile time.process_time() < .2: pass")
    assert outcome.cpu_s is None if "cpuacct" not in cgroups.usable(cgroups.trees()) else outcome.cpu_s > 0.15
