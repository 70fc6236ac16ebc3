"""Tries: open the core pattern for writing (code execution on the host at the next crash).

Must: be refused: an error, and nothing done.
"""

import os

os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))
