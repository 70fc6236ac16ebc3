"""Mounts as descriptors, id-mapped mounts, and entering namespaces: what Python and `kernel` do not offer.

A mount held by a descriptor belongs to no tree: it can be made in one mount namespace and put into another
whose own processes never saw where it came from. Linux 5.12 or later.

Covered: x86_64 and aarch64, where these numbers are equal.
"""

import ctypes
import errno
import fcntl
import os
import struct
from typing import Final

from burnish.sandbox.inside import kernel

OPEN_TREE: Final = 428
MOVE_MOUNT: Final = 429
MOUNT_SETATTR: Final = 442
OPEN_TREE_CLONE: Final = 1
MOVE_MOUNT_FROM_EMPTY_PATH: Final = 4
AT_FDCWD: Final = -100
AT_EMPTY_PATH: Final = 0x1000
AT_RECURSIVE: Final = 0x8000
ATTR_RDONLY: Final = 1
ATTR_NOSUID: Final = 2
ATTR_NODEV: Final = 4
ATTR_IDMAP: Final = 0x0010_0000
READ_ONLY: Final = ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV
TIOCGPTPEER: Final = 0x5441
TIOCSPTLCK: Final = 0x4004_5431

_libc = ctypes.PyDLL(None, use_errno=True)


def _call(what: str, number: int, *arguments: ctypes.c_long | ctypes.c_char_p | ctypes.Array[ctypes.c_char]) -> int:
    result = int(_libc.syscall(ctypes.c_long(number), *arguments))
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def take(path: str, is_recursive: bool) -> int:
    """Copy the mount that `path` lies on, from `path` down, as a descriptor."""
    flags = OPEN_TREE_CLONE | os.O_CLOEXEC | (AT_RECURSIVE if is_recursive else 0)
    name = ctypes.c_char_p(os.fsencode(path))
    return _call(f"open_tree {path}", OPEN_TREE, ctypes.c_long(AT_FDCWD), name, ctypes.c_long(flags))


def put(mount_fd: int, target: str) -> None:
    """Attach a mount held by a descriptor."""
    _call(
        f"move_mount to {target}",
        MOVE_MOUNT,
        ctypes.c_long(mount_fd),
        ctypes.c_char_p(b""),
        ctypes.c_long(AT_FDCWD),
        ctypes.c_char_p(os.fsencode(target)),
        ctypes.c_long(MOVE_MOUNT_FROM_EMPTY_PATH),
    )


def restrict(mount_fd: int, attributes: int, user_namespace_fd: int = 0) -> None:
    """Set attributes on a mount and all below it; with ATTR_IDMAP, read its owners through that namespace."""
    packed = struct.pack("=QQQQ", attributes, 0, 0, user_namespace_fd)
    _call(
        f"mount_setattr {attributes:#x}",
        MOUNT_SETATTR,
        ctypes.c_long(mount_fd),
        ctypes.c_char_p(b""),
        ctypes.c_long(AT_EMPTY_PATH | (0 if attributes & ATTR_IDMAP else AT_RECURSIVE)),
        ctypes.create_string_buffer(packed, len(packed)),
        ctypes.c_long(len(packed)),
    )


def bind(outside: str, inside: str, attributes: int = READ_ONLY) -> None:
    """Bind a file or folder with all that is mounted below it."""
    fd = take(outside, is_recursive=True)
    try:
        restrict(fd, attributes)
        put(fd, inside)
    finally:
        os.close(fd)


def enter(namespace_fd: int, kind: int) -> None:
    """Join a namespace; with a kind of PID namespace, what is forked from now on is in it."""
    if int(_libc.setns(ctypes.c_int(namespace_fd), ctypes.c_int(kind))) == -1:
        code = ctypes.get_errno()
        raise OSError(code, f"setns({kind:#x}): {os.strerror(code)}")


def id_map(owner_uid: int, owner_gid: int, uid: int, gid: int) -> int:
    """Make a user namespace that reads `owner` as `uid`, and nobody else; its descriptor."""
    ready, told = os.pipe()
    held, hold = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(hold)
        kernel.unshare(kernel.CLONE_NEWUSER)
        os.write(told, b"r")
        os.read(held, 1)
        os._exit(0)
    os.close(told)
    try:
        if not os.read(ready, 1):
            raise OSError(errno.EPERM, "no user namespace for an id-mapped mount")
        write(f"/proc/{child}/uid_map", f"{owner_uid} {uid} 1")
        write(f"/proc/{child}/gid_map", f"{owner_gid} {gid} 1")
        return os.open(f"/proc/{child}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        for fd in (ready, held, hold):
            os.close(fd)
        os.waitpid(child, 0)


def write(path: str, text: str) -> None:
    """Write a small file of the kernel's in one go."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def open_terminal(devpts_fd: int) -> tuple[int, int]:
    """Open a new terminal of the given devpts: the far and the near side."""
    master = os.open("ptmx", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=devpts_fd)
    fcntl.ioctl(master, TIOCSPTLCK, struct.pack("i", 0))
    return master, fcntl.ioctl(master, TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)


def is_unsupported(error: OSError) -> bool:
    """Whether a filesystem said that it has no id-mapped mounts."""
    return error.errno in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS)
