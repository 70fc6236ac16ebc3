"""Tries: open the kernel's emergency keys.

Must: be refused: an error, and nothing done.
"""

import os

os.close(os.open("/proc/sysrq-trigger", os.O_WRONLY))
