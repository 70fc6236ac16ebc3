"""Tries: raise its own limits.

Must: be refused: an error, and nothing done.
"""

import resource

hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
resource.setrlimit(resource.RLIMIT_NPROC, (hard + 1000, hard + 1000))
