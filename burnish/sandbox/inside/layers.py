"""Trees made of layers: mounted as one, copied, merged, and compared.

A chain is a list of folders, lowest first. A folder above says what changed: an entry replaces the one below,
a character device 0/0 removes it, and a folder marked opaque hides what lies below it. That is what overlayfs
writes with `userxattr`, and all that it writes here: `index`, `redirect_dir` and `metacopy` stay off, so that
renaming a folder that comes from a layer answers EXDEV, as in a container (`mv` copies then).

All of this runs in the keeper, on layers that nobody writes any more, or whose writers stand still. No link
is followed: a path counts only if each of its parents is a folder of the same tree.
"""

import errno
import itertools
import os
import stat
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from burnish.sandbox.inside import contents, kernel

OPAQUE: Final = "user.overlay.opaque"
Change = Literal["added", "changed", "deleted"]


def mount_writable(chain: Sequence[str], upper: str, work: str, target: str) -> None:
    """Mount a chain with a folder on top that takes the changes."""
    flags = kernel.MS_NOSUID | kernel.MS_NODEV
    options = f"lowerdir={_lower(chain)},upperdir={upper},workdir={work},userxattr,index=off"
    kernel.mount("overlay", target, "overlay", flags, options)


def mount_view(chain: Sequence[str], target: str) -> None:
    """Mount a chain of two or more to be read."""
    flags = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_RDONLY
    kernel.mount("overlay", target, "overlay", flags, f"lowerdir={_lower(chain)},userxattr,index=off")


def _lower(chain: Sequence[str]) -> str:
    return ":".join(reversed(chain))


def is_opaque(folder: str) -> bool:
    """Whether a folder hides what lies below it."""
    try:
        return os.getxattr(folder, OPAQUE, follow_symlinks=False) == b"y"
    except OSError:
        return False


def is_whiteout(status: os.stat_result) -> bool:
    """Whether an entry of a layer stands for a removal."""
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def copy(source: str, target: str) -> None:
    """Copy a layer as it is, marks included."""
    for path, status in _walk(source):
        _copy_entry(f"{source}/{path}", f"{target}/{path}", status)
    _copy_attributes(source, target, os.lstat(source))


def merge(chain: Sequence[str], target: str) -> None:
    """Write into `target` the one layer that says what all of `chain` say; files are linked where that is possible."""
    for layer in chain:
        for path, status in _walk(layer):
            _apply(f"{layer}/{path}", f"{target}/{path}", status, target)
    _copy_attributes(chain[-1], target, os.lstat(chain[-1]))


def _apply(source: str, target: str, status: os.stat_result, trash: str) -> None:
    there = _lstat(target)
    is_folder = stat.S_ISDIR(status.st_mode)
    stays = is_folder and there is not None and stat.S_ISDIR(there.st_mode) and not is_opaque(source)
    if there is not None and not stays:
        remove(target, trash)
    if stays:
        _copy_attributes(source, target, status)
    elif stat.S_ISREG(status.st_mode):
        try:
            os.link(source, target, follow_symlinks=False)
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EMLINK):
                raise
            _copy_entry(source, target, status)
    else:
        _copy_entry(source, target, status)


def _walk(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """Every entry below, parents first, as path and status."""
    pending = [""]
    while pending:
        parent = pending.pop()
        with os.scandir(f"{folder}/{parent}") as entries:
            for entry in entries:
                path = f"{parent}{entry.name}"
                yield path, entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    pending.append(f"{path}/")


def _copy_entry(source: str, target: str, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        os.mkdir(target)
        if is_opaque(source):
            os.setxattr(target, OPAQUE, b"y")
    elif stat.S_ISREG(status.st_mode):
        contents.copy(source, target)
    elif stat.S_ISLNK(status.st_mode):
        os.symlink(os.readlink(source), target)
    else:
        os.mknod(target, status.st_mode, status.st_rdev)
    _copy_attributes(source, target, status)


def _copy_attributes(source: str, target: str, status: os.stat_result) -> None:
    if is_whiteout(status):
        return
    os.chown(target, status.st_uid, status.st_gid, follow_symlinks=False)
    if not stat.S_ISLNK(status.st_mode):
        os.chmod(target, stat.S_IMODE(status.st_mode))
        for name in os.listxattr(source):
            if name.startswith("user.") and not name.startswith("user.overlay."):
                os.setxattr(target, name, os.getxattr(source, name))
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns), follow_symlinks=False)


def remove(path: str, trash: str) -> None:
    """Remove a tree of any depth, if it is there: each folder is moved up into `trash` before it is emptied."""
    status = _lstat(path)
    if status is None:
        return
    if not stat.S_ISDIR(status.st_mode):
        os.unlink(path)
        return
    moves, prefix = itertools.count(), f"{trash}/.{os.urandom(8).hex()}"
    pending = [path]
    while pending:
        folder = pending.pop()
        with os.scandir(folder) as entries:
            listed = list(entries)
        for entry in listed:
            if entry.is_dir(follow_symlinks=False):
                moved = f"{prefix}-{next(moves)}"
                os.rename(entry.path, moved)
                pending.append(moved)
            else:
                os.unlink(entry.path)
        os.rmdir(folder)


def _lstat(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


class Tree:
    """A mounted view, asked by relative path without following any link."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._folders: dict[str, bool] = {"": True}

    def status(self, path: str) -> os.stat_result | None:
        """What lies at `path`, if it is reached through folders alone."""
        return _lstat(f"{self._root}/{path}") if self._is_folder(path.rpartition("/")[0]) else None

    def _is_folder(self, path: str) -> bool:
        if path not in self._folders:
            status = self.status(path)
            self._folders[path] = status is not None and stat.S_ISDIR(status.st_mode)
        return self._folders[path]

    def below(self, path: str) -> Iterator[str]:
        """Every path below a folder."""
        if self._is_folder(path):
            yield from (f"{path}/{rest}" for rest, _ in _walk(f"{self._root}/{path}"))

    def full(self, path: str) -> str:
        """The path to open."""
        return f"{self._root}/{path}"


def compare(old: Tree, new: Tree, layers: Sequence[str]) -> dict[str, Change]:
    """Say what differs between two trees that have all but `layers` in common; folders are not listed.

    Files of one size that together have more data than the budget of `contents` count as changed from there on.
    """
    changes: dict[str, Change] = {}
    budget = contents.Budget()
    for path in sorted(_candidates(old, new, layers)):
        change = _change(old, new, path, budget)
        if change is not None:
            changes[path] = change
    return changes


def _candidates(old: Tree, new: Tree, layers: Sequence[str]) -> set[str]:
    found: set[str] = set()
    for layer in layers:
        for path, status in _walk(layer):
            if path in found:
                continue
            found.add(path)
            is_folder = stat.S_ISDIR(status.st_mode)
            if not is_folder or is_opaque(f"{layer}/{path}"):
                found.update(old.below(path))
                found.update(new.below(path))
    return found


def _change(old: Tree, new: Tree, path: str, budget: contents.Budget) -> Change | None:
    before, after = _unless_folder(old.status(path)), _unless_folder(new.status(path))
    if before is None or after is None:
        return None if before is after else "added" if before is None else "deleted"
    is_same = before.st_mode == after.st_mode and (
        before.st_size == after.st_size and _has_same_content(old.full(path), new.full(path), before, budget)
    )
    return None if is_same else "changed"


def _unless_folder(status: os.stat_result | None) -> os.stat_result | None:
    return None if status is None or stat.S_ISDIR(status.st_mode) else status


def _has_same_content(old: str, new: str, status: os.stat_result, budget: contents.Budget) -> bool:
    if stat.S_ISLNK(status.st_mode):
        return os.readlink(old) == os.readlink(new)
    if not stat.S_ISREG(status.st_mode):
        return True
    return contents.is_same(old, new, budget)
