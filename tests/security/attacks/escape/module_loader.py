"""Tries: open the path of the module loader for writing.

Must: be refused: an error, and nothing done.
"""

import os

os.close(os.open("/proc/sys/kernel/modprobe", os.O_WRONLY))
