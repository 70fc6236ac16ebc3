"""Tries: take the descriptors of its parent away.

Must: be refused: an error, and nothing done.
"""

import resource

resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0))
