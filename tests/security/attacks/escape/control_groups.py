"""Tries: open its own limits for writing.

Must: be refused: an error, and nothing done.
"""

import os

os.close(os.open("/sys/fs/cgroup/memory/memory.limit_in_bytes", os.O_WRONLY))
