"""The plan of a place's root: this host's programs and little else, or a folder that is given.

From the host come `/usr` (read-only, nosuid), the links that merge it with `/bin` and `/lib`, the loader's
cache, and this Python with its site-packages, as for a job, at `/python` and `/site/0`. `/etc` is written new.
A given root is taken as it is, with the place's own `/proc`, `/dev`, `/tmp` and `/work` over it.
"""

import itertools
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from burnish.core.errors import SandboxError
from burnish.sandbox import host
from burnish.sandbox.inside.ground import Plan
from burnish.sandbox.inside.room import ROOM_UID
from burnish.sandbox.place import PlaceSpec

FIRST_UID: Final = 0x6000_0000  # two for each keeper, from a range that no distribution hands out
NUM_UIDS: Final = 0x0F00_0000
MERGED: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
FROM_ETC: Final = ("/etc/ld.so.cache", "/etc/alternatives")
TEXTS: Final = {
    "/etc/passwd": f"root:x:0:0::/:/bin/sh\nagent:x:{ROOM_UID}:{ROOM_UID}::/work:/bin/bash\n"
    "nobody:x:65534:65534::/:/bin/false\n",
    "/etc/group": f"root:x:0:\nagent:x:{ROOM_UID}:\nnogroup:x:65534:\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "/etc/hosts": "127.0.0.1 localhost sandbox\n",
}
_numbers = itertools.count()


def plan(spec: PlaceSpec, control_fd: int) -> Plan:
    """Plan the root of a new keeper."""
    for name, folder in (*(("layer", layer) for layer in spec.layers), ("rootfs", spec.rootfs)):
        if folder is not None and not folder.is_dir():
            raise SandboxError(f"sandbox: {name} {str(folder)!r} of a place is no folder")
    base = host.plan(control_fd, ())
    first = FIRST_UID + (os.getpid() * 2048 + 2 * next(_numbers) % 2048) % NUM_UIDS
    is_own = spec.rootfs is None
    return Plan(
        mode="root" if base.mode == "root" else "user",  # layers are the caller's files, so who changes them is too
        control_fd=control_fd,
        uids=(first, first + 1),
        layers=[str(layer.resolve()) for layer in spec.layers],
        rootfs=str(spec.rootfs.resolve()) if spec.rootfs else None,
        binds=_binds(base.binds) if is_own else [],
        links=_links(base.interpreter) if is_own else {},
        texts=TEXTS if is_own else {},
    )


def environment(spec: PlaceSpec) -> Mapping[str, str]:
    """What every program in the place finds in its environment."""
    own = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/work",
        "USER": "agent",
        "SHELL": "/bin/bash",
        "TMPDIR": "/tmp",
        "LANG": "C.UTF-8",
        "TERM": "dumb",
    }
    if spec.rootfs is None:
        base = host.plan(-1, ())
        own |= {
            "PATH": "/python/bin:" + own["PATH"],
            "PYTHONPATH": ":".join(base.site_folders),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        if base.library_folder and not _is_under_usr():
            own["LD_LIBRARY_PATH"] = base.library_folder
    return own | dict(spec.env)


def _is_under_usr() -> bool:
    return Path(sys.base_prefix).is_relative_to("/usr")


def _binds(jobs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    kept = ("/site/",) if _is_under_usr() else ("/site/", "/python/")
    found = [("/usr", "/usr"), *((outside, inside) for outside, inside in jobs if inside.startswith(kept))]
    found += [(f"/{name}", f"/{name}") for name in MERGED if Path(f"/{name}").is_dir() and not _is_link(name)]
    return found + [(path, path) for path in FROM_ETC if Path(path).exists()]


def _links(interpreter: str) -> dict[str, str]:
    target = os.path.realpath(sys.executable) if _is_under_usr() else Path(interpreter).name
    own = {f"/python/bin/{name}": target for name in ("python", "python3")}
    return own | {f"/{name}": os.readlink(f"/{name}") for name in MERGED if _is_link(name)}


def _is_link(name: str) -> bool:
    return Path(f"/{name}").is_symlink()
