"""The user namespace of an ordinary user's fork server, and which users there are in it.

Either one: the caller, who is root in there. Or a range: the caller as root, and from 1 on users that the system has
set aside for them (`/etc/subuid`, `/etc/subgid`). Who may use a range is decided by `newuidmap` and `newgidmap`, which
have the right to write such maps: a child outside the namespace runs them on its parent within.

`bare.start("user_maps")` runs `main`, which tries a range and leaves nothing.
"""

import json
import os
import sys
from dataclasses import dataclass

from burnish.sandbox.inside import kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """Subordinate users and groups: the first of each outside, how many, and the programs that map them."""

    first_uid: int
    first_gid: int
    count: int
    newuidmap: str
    newgidmap: str


def main() -> None:
    """Try the range on the command line; the exit code says whether it can be had."""
    become_root_of_range(Ranges(**json.loads(sys.argv[1])))
    os.setgroups([])
    os.setresgid(1, 1, 1)
    os.setresuid(1, 1, 1)


def become_root_of_one() -> None:
    """Enter a user namespace in which the caller is root, and alone."""
    uid, gid = os.getuid(), os.getgid()
    kernel.unshare(kernel.CLONE_NEWUSER)
    for name, text in (("setgroups", "deny"), ("gid_map", f"0 {gid} 1"), ("uid_map", f"0 {uid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def become_root_of_range(ranges: Ranges) -> None:
    """Enter a user namespace in which the caller is root, and a range of others is there."""
    uid, gid, target = os.getuid(), os.getgid(), os.getpid()
    entered, enter = os.pipe()
    mapper = os.fork()
    if mapper == 0:
        os.close(enter)
        commands = (
            (ranges.newuidmap, uid, ranges.first_uid),
            (ranges.newgidmap, gid, ranges.first_gid),
        )
        has_entered = os.read(entered, 1) == b"x"
        is_mapped = has_entered and all(
            _runs([program, str(target), "0", str(own), "1", "1", str(first), str(ranges.count)])
            for program, own, first in commands
        )
        os._exit(0 if is_mapped else 1)
    os.close(entered)
    kernel.unshare(kernel.CLONE_NEWUSER)
    os.write(enter, b"x")
    os.close(enter)
    _, status = os.waitpid(mapper, 0)
    if status:
        raise OSError(f"{ranges.newuidmap} gave uid {uid} no range from {ranges.first_uid} on, {ranges.count} long")


def _runs(command: list[str]) -> bool:
    return os.spawnve(os.P_WAIT, command[0], command, {}) == 0
