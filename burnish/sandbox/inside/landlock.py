"""Landlock, a second wall around files: what mounts hide or make read-only, these rules forbid once more.

The root may be read and executed; `/work`, `/tmp` and `/dev/shm` may be written, and so may the harmless
devices. TCP may be neither bound nor connected; abstract UNIX sockets and signals end at the job's edge,
each where the kernel's version of Landlock knows it. A kernel without Landlock is asked once and left.

Covered: versions 1 to 7 of the interface (Linux 5.13 to 6.15); later ones are used as version 7. Numbers
are those of x86_64 and aarch64, which are equal. Not covered: `/proc` is read-only here, so a job
cannot change its own entries there, such as `oom_score_adj`.
"""

import ctypes
import os
from collections.abc import Iterable
from typing import Final

from burnish.sandbox.inside import kernel

CREATE_RULESET: Final = 444
ADD_RULE: Final = 445
RESTRICT_SELF: Final = 446
CREATE_RULESET_VERSION: Final = 1
RULE_PATH_BENEATH: Final = 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
READ: Final = EXECUTE | READ_FILE | READ_DIR
ALL_OF_VERSION_1: Final = (1 << 13) - 1
TCP_BIND_AND_CONNECT: Final = 0b11
ABSTRACT_SOCKETS_AND_SIGNALS: Final = 0b11
NEWEST_KNOWN: Final = 7


class _Ruleset(ctypes.Structure):
    """struct landlock_ruleset_attr; a kernel takes as much of it as it knows."""

    _fields_ = [("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    """struct landlock_path_beneath_attr."""

    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("fd", ctypes.c_int32)]


def abi() -> int:
    """Ask the kernel for its version of Landlock; 0 where it has none."""
    try:
        return kernel.call(CREATE_RULESET, "landlock_create_ruleset", 0, 0, CREATE_RULESET_VERSION)
    except OSError:
        return 0


def file_rights(version: int) -> int:
    """Name every right over files that this version can take away."""
    since_2 = REFER if version >= 2 else 0
    since_3 = TRUNCATE if version >= 3 else 0
    since_5 = IOCTL_DEV if version >= 5 else 0
    return ALL_OF_VERSION_1 | since_2 | since_3 | since_5


def ruleset(version: int, writable: Iterable[str]) -> int:
    """Make the rules, as a descriptor, for a kernel of this version, which is not 0."""
    rights = file_rights(version)
    network = TCP_BIND_AND_CONNECT if version >= 4 else 0
    scopes = ABSTRACT_SOCKETS_AND_SIGNALS if version >= 6 else 0
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    wanted = _Ruleset(rights, network, scopes)
    made = kernel.call(CREATE_RULESET, "landlock_create_ruleset", ctypes.addressof(wanted), size, 0)
    try:
        _allow(made, "/", READ)
        for folder in writable:
            _allow(made, folder, rights)
        _allow(
            made, "/dev", READ | WRITE_FILE | (rights & (TRUNCATE | IOCTL_DEV))
        )  # devices alone, on a read-only mount
    except BaseException:
        os.close(made)
        raise
    return made


def ready_to_enforce(ruleset_fd: int) -> kernel.Ready:
    """Make ready to put the rules on whoever calls, and all that it starts."""
    return kernel.ready_call(RESTRICT_SELF, ruleset_fd, 0)


def enforce(version: int, writable: Iterable[str]) -> None:
    """Put the rules on this process and all that it starts; nothing where `version` is 0."""
    if version == 0:
        return
    made = ruleset(version, writable)
    try:
        kernel.call(RESTRICT_SELF, "landlock_restrict_self", made, 0)
    finally:
        os.close(made)


def _allow(ruleset: int, path: str, rights: int) -> None:
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = _PathBeneath(rights, fd)
        kernel.call(ADD_RULE, "landlock_add_rule", ruleset, RULE_PATH_BENEATH, ctypes.addressof(rule), 0)
    finally:
        os.close(fd)
