"""Try the escapes before trusting the boundary: one hostile job at the opening of each box.

It opens for writing (and never writes) the kernel setting that gives code execution on the host,
reaches for the network and the hypervisor, traces its parent, reads a file that lies outside and the home
folder of who started it, becomes another user, fills the disk, signals what it did not start, and leaves a
daemon behind. If one works, no other job runs.

That the daemon is dead is known from its pipe: the run returns only once the last writer of its streams
is gone, and fails otherwise.
"""

import json
import os
import secrets
import socket
from contextlib import closing
from itertools import islice
from typing import Final

from burnish.core.errors import SandboxError
from burnish.core.scratch import Scratch
from burnish.sandbox.types import Box, Job, ResourceLimits

DISK_MB: Final = 1
MAX_ENTRIES: Final = 20
ATTEMPTS: Final = (
    "write /proc/sys/kernel/core_pattern",
    "open an AF_VSOCK socket",
    "reach a TCP port of the host",
    "trace its parent",
    "read a file outside",
    "write more than its disk",
    "read the home folder",
    "become another user",
    "signal a process outside",
)
SOURCE: Final = """
import ctypes, json, os, socket, time
given = json.load(open("given.json"))

def core_pattern():
    os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))

def vsock():
    socket.socket(40, socket.SOCK_STREAM)

def tcp():
    socket.create_connection(("127.0.0.1", given["port"]), timeout=1)

def trace():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(16, os.getppid(), 0, 0) == -1:
        raise OSError(ctypes.get_errno(), "ptrace")

def outside():
    open(given["canary"]).read()

def disk():
    with open("/tmp/big", "wb", buffering=0) as file:
        for _ in range(given["disk_mb"] + 1):
            if file.write(bytes(1 << 20)) < 1 << 20:
                raise OSError("short write")

def home():
    for name, inode, changed_ns in given["home_entries"]:
        seen = os.lstat(given["home"] + "/" + name)
        if (seen.st_ino, seen.st_mtime_ns) == (inode, changed_ns):
            return
    raise OSError("another folder, or nothing")

def change_user():
    other = 0 if os.getuid() else 1
    os.setresuid(other, other, other)

def signal_outside():
    if given["pid"] <= 64:
        raise OSError("a number that a process inside may have too")
    os.kill(given["pid"], 0)

def daemon():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)

worked = []
for attempt in (core_pattern, vsock, tcp, trace, outside, disk, home, change_user, signal_outside):
    try:
        attempt()
        worked.append(True)
    except OSError:
        worked.append(False)
daemon()
os.write(int(os.environ["BURNISH_ANSWER_FD"]), json.dumps(worked).encode())
"""


async def prove(box: Box) -> None:
    """Run the attempts in `box`; `SandboxError` names those that worked."""
    with closing(Scratch("burnish-canary-")) as outside, socket.socket() as server:
        canary = outside.path / "canary"
        canary.write_text(secrets.token_hex())
        server.bind(("127.0.0.1", 0))
        server.listen()
        home = os.path.realpath(os.path.expanduser("~"))
        given = {
            "port": server.getsockname()[1],
            "canary": os.path.realpath(canary),
            "disk_mb": DISK_MB,
            "home": home,
            "home_entries": _entries(home),
            "pid": os.getpid(),
        }
        limits = ResourceLimits(wall_s=20.0, disk_mb=DISK_MB)
        outcome = await box.run(Job(source=SOURCE, files={"given.json": json.dumps(given).encode()}, limits=limits))
    if outcome.ending != "exited" or outcome.exit_code != 0:
        raise SandboxError(
            f"sandbox: its self-test did not end: got {outcome.ending!r} with exit code {outcome.exit_code}, "
            f"stderr {outcome.stderr[-500:].decode(errors='replace')!r}; expected 'exited' with 0"
        )
    open_ways = [name for name, worked in zip(ATTEMPTS, json.loads(outcome.answer), strict=True) if worked]
    if open_ways:
        raise SandboxError(
            f"sandbox: this host does not hold a job in; the self-test could {', '.join(open_ways)}; "
            "run elsewhere, or say isolation = 'none' if you trust what runs"
        )


def _entries(folder: str) -> list[tuple[str, int, int]]:
    """A few entries of a folder, with what tells each from its like elsewhere."""
    try:
        with os.scandir(folder) as entries:
            few = [(entry.name, entry.stat(follow_symlinks=False)) for entry in islice(entries, MAX_ENTRIES)]
    except OSError:
        return []
    return [(name, found.st_ino, found.st_mtime_ns) for name, found in few]
