"""Tries: change a file of the standard library in each way there is.

Must: change nothing.
"""

import os

path = os.__file__
folder = os.path.dirname(path)
ways = (
    lambda: os.chmod(path, 0o777),
    lambda: os.chown(path, os.getuid(), os.getgid()),
    lambda: os.utime(path, (1, 1)),
    lambda: os.truncate(path, 0),
    lambda: os.unlink(path),
    lambda: os.rename(path, path + "~"),
    lambda: os.rename(path, "/tmp/os.py"),
    lambda: os.setxattr(path, "user.mark", b"x"),
    lambda: os.symlink("/tmp", folder + "/link"),
    lambda: os.mkdir(folder + "/new"),
    lambda: os.mkfifo(folder + "/pipe"),
    lambda: os.open(folder, os.O_TMPFILE | os.O_WRONLY),
    lambda: os.open(path, os.O_RDONLY | os.O_TRUNC),
)
changed = []
for number, way in enumerate(ways):
    try:
        way()
        changed.append(number)
    except OSError:
        continue
if not changed:
    raise PermissionError
