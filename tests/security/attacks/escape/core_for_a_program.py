"""Tries: set the limit on core files to 0, which lets a crash start the host's program for cores, as its root.

Must: keep the limit at the one byte that forbids it.
"""

import resource

resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
if resource.getrlimit(resource.RLIMIT_CORE) == (1, 1):
    raise OSError("as it was")
