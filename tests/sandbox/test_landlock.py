"""Landlock forbids by itself what mounts forbid already, and costs nothing where there is none."""

import errno
import subprocess
import sys

import pytest

from burnish.sandbox.inside import landlock

TRY = """
import os, socket, sys
from burnish.sandbox.inside import kernel, landlock
os.makedirs(sys.argv[1], exist_ok=True)
secret = sys.argv[2]
kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
landlock.enforce(landlock.abi(), [sys.argv[1]])
open(sys.argv[1] + "/mine", "w").write("x")
open(os.__file__).read(1)
open("/dev/null", "w").write("x")
for name, attempt in {
    "write": lambda: open(secret, "a"),
    "remove": lambda: os.unlink(secret),
    "folder": lambda: os.mkdir(secret + ".d"),
    "bind": lambda: socket.create_server(("127.0.0.1", 0)),
}.items():
    try:
        attempt()
        print(name)
    except PermissionError:
        pass
"""


def test_rights_grow_with_the_version():
    assert [bin(landlock.file_rights(version)).count("1") for version in (1, 2, 3, 4, 5, 7)] == [13, 14, 15, 15, 16, 16]


def test_version_0_puts_up_no_wall():
    landlock.enforce(0, ["/no/such/folder"])


def test_the_rules_hold_alone(tmp_path):
    if landlock.abi() < 4:
        pytest.skip(f"Landlock here has version {landlock.abi()}; 4 forbids TCP")
    (tmp_path / "secret").touch()
    command = [sys.executable, "-c", TRY, str(tmp_path / "own"), str(tmp_path / "secret")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "" and (tmp_path / "secret").exists()


MOST_LAYERS = 16
STACK = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
rights = ctypes.c_uint64(1 << 11)  # to make block devices
made = libc.syscall(444, ctypes.byref(rights), ctypes.c_size_t(8), 0)
count = 0
while libc.syscall(446, made, 0) == 0:
    count += 1
print(count, ctypes.get_errno())
"""


def test_a_job_stands_behind_it(run):
    """The kernel stacks so many rule sets and no more: behind one, a job can add one fewer."""
    if landlock.abi() == 0:
        pytest.skip("no Landlock here")
    assert run(STACK).stdout == b"%d %d\n" % (MOST_LAYERS - 1, errno.E2BIG)
