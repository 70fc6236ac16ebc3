"""Users that the system has set aside for who calls: `/etc/subuid` and `/etc/subgid`, with `newuidmap`, `newgidmap`.

With them each job of an ordinary user has a uid of its own outside too, and none of its files or processes is the
caller's. Whether they can be had is tried once, in a process that ends at once: a container may forbid what its files
promise.

Not covered: ranges that only NSS knows (`subid:` in nsswitch.conf); Python or packages that only their owner may read,
for which jobs keep the caller's uid.
"""

import functools
import json
import os
import pwd
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Final, NamedTuple

from burnish.sandbox import bare
from burnish.sandbox.inside.user_maps import Ranges

FILES: Final = (Path("/etc/subuid"), Path("/etc/subgid"))
LEAST: Final = 1024
"""Fewer would come round while earlier jobs live."""
TRY_S: Final = 20.0
HOW: Final = "apt-get install uidmap, and as root: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER"


class _Range(NamedTuple):
    first: int
    length: int


def ranges() -> Ranges | None:
    """The ranges that this process may use; None where there are none, or nothing to map them with."""
    programs = [shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin") for name in ("newuidmap", "newgidmap")]
    found = [_range(path, os.getuid()) for path in FILES]
    if programs[0] is None or programs[1] is None or found[0] is None or found[1] is None:
        return None
    return Ranges(
        first_uid=found[0].first,
        first_gid=found[1].first,
        count=min(one.length for one in found if one is not None),
        newuidmap=programs[0],
        newgidmap=programs[1],
    )


@functools.cache
def usable(read_by_jobs: tuple[str, ...]) -> Ranges | None:
    """The ranges, if they can really be had and other users may read what jobs read."""
    found = ranges()
    if found is None or not all(map(_is_for_all, read_by_jobs)):
        return None
    command = [sys.executable, "-I", "-S", "-c", bare.start("user_maps"), json.dumps(asdict(found))]
    try:
        tried = subprocess.run(command, env={}, cwd="/", capture_output=True, timeout=TRY_S, check=False)
    except subprocess.TimeoutExpired:
        return None
    return found if tried.returncode == 0 else None


def _range(path: Path, uid: int) -> _Range | None:
    """The longest range of a user."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return max(_of_user(lines, uid), key=lambda one: one.length, default=None)


def _of_user(lines: Iterable[str], uid: int) -> Iterable[_Range]:
    try:
        names = {pwd.getpwuid(uid).pw_name, str(uid)}
    except KeyError:
        names = {str(uid)}
    for line in lines:
        name, _, rest = line.partition(":")
        first, _, length = rest.partition(":")
        if name in names and first.isdigit() and length.isdigit() and int(length) >= LEAST:
            yield _Range(int(first), int(length))


def _is_for_all(path: str) -> bool:
    wanted = stat.S_IROTH | (stat.S_IXOTH if os.path.isdir(path) else 0)
    return os.stat(path).st_mode & wanted == wanted
