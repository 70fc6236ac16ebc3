"""Snapshots of a room: its topmost layer is frozen, or copied while all in the room stand still; and compared.

To freeze costs the same whatever the size of the tree, and needs that nobody writes; a copy is made where somebody may.
"""

import contextlib
import json
import os
import select
import signal
import stat
import time
from collections.abc import Callable
from typing import Final

from burnish.sandbox.inside import census, kernel, layers, mounts, room
from burnish.sandbox.inside.children import Children

MAX_FROZEN: Final = 24
SIGNALLING_S: Final = 1.0
STANDING_STILL_S: Final = 5.0
"""For all attempts together: whoever waits for the keeper takes it for dead after a while."""
GOING_ON_S: Final = 0.01


def freeze(kept: room.Room) -> bool:
    """Make what has changed a frozen layer, and lay an empty one on it; whether nobody was in the way."""
    old_live, old_work = kept.live, f"{kept.store}/w{kept.top}"
    flags = kernel.MS_REMOUNT | kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV
    try:
        kernel.mount("none", old_live, None, flags)
    except OSError:
        return False  # somebody holds a file open for writing
    mode, old_top = stat.S_IMODE(os.lstat(kept.upper).st_mode), kept.top
    try:
        room.lay(kept, _shortened(kept, [*kept.chain, kept.upper]), mode)
    except OSError:
        kernel.mount("none", old_live, None, flags & ~kernel.MS_RDONLY)
        raise
    for kind in ("tmp", "shm"):
        os.rename(f"{kept.store}/{kind}{old_top}", f"{kept.store}/{kind}{kept.top}")
    room.swap_work(kept)
    kernel.unmount(old_live)
    os.rmdir(old_live)
    with contextlib.suppress(OSError):  # still in use by whoever has its folder as its own
        layers.remove(old_work, kept.store)
    return True


def _shortened(kept: room.Room, chain: list[str]) -> list[str]:
    frozen = [layer for layer in chain if layer.startswith("/store/")]
    if len(frozen) <= MAX_FROZEN:
        return chain
    merged = f"{kept.store}/m{kept.top}"
    try:
        os.mkdir(merged)
        layers.merge(frozen, merged)
    except OSError:  # no space for it: a long chain is slower, not wrong
        layers.remove(merged, kept.store)
        return chain
    return [*(layer for layer in chain if layer not in frozen), merged]


def copy_still(kept: room.Room, number: int, children: Children) -> str:
    """Copy what has changed while all in the room stand still; the layer that it becomes."""
    copied = f"{kept.store}/u{kept.top}c{number}"
    os.mkdir(copied)
    try:
        _stop_all(kept, children)
        layers.copy(kept.upper, copied)
    except OSError:
        layers.remove(copied, kept.store)
        raise
    finally:
        _signal_all(kept, signal.SIGCONT, children)
    return copied


def _stop_all(target: room.Room, children: Children) -> None:
    """Stop every process. One that waits for its vfork's child to exec cannot stop while the child is stopped: the two
    are let go on for a moment, and stopped again."""
    deadline = time.monotonic() + STANDING_STILL_S
    while time.monotonic() < deadline:
        _signal_all(target, signal.SIGSTOP, children)
        if census.comes_to_rest(target):
            return
        _signal_all(target, signal.SIGCONT, children)
        time.sleep(GOING_ON_S)
    raise OSError(f"what runs in the place did not stand still within {STANDING_STILL_S:.0f} s")


def _signal_all(target: room.Room, number: int, children: Children) -> None:
    """A child does it, from within; where room and keeper are one user, the room may stop that child."""
    child = _fork_into(target, lambda: os.kill(-1, number))
    pidfd = os.pidfd_open(child)
    try:
        if not select.select([pidfd], [], [], SIGNALLING_S)[0]:
            os.kill(child, signal.SIGKILL)
    finally:
        os.close(pidfd)
    children.reap(until=child)


def _fork_into(target: room.Room, work: Callable[[], None]) -> int:
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    mounts.enter(target.fds["pid"], kernel.CLONE_NEWPID)
    try:
        child = os.fork()
        if child == 0:
            with contextlib.suppress(OSError):
                work()
            os._exit(0)
    finally:
        mounts.enter(own, kernel.CLONE_NEWPID)
        os.close(own)
    return child


def compare(before: list[str], after: list[str], found_fd: int) -> None:
    """Mount both trees where nobody else sees them, compare, and write down what differs."""
    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    for chain, target in ((before, "/mnt"), (after, "/base")):
        layers.mount_view([room.DRY[1], *chain], target)
    num_common = 0
    while num_common < min(len(before), len(after)) and before[num_common] == after[num_common]:
        num_common += 1
    differing = [*before[num_common:], *after[num_common:]]
    changes = layers.compare(layers.Tree("/mnt"), layers.Tree("/base"), differing)
    with open(found_fd, "w", encoding="utf-8", errors="surrogateescape") as file:
        json.dump(changes, file)
