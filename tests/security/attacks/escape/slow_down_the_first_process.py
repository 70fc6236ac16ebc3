"""Tries: make the first process of its namespace give way to all others, for whoever comes next.

Must: be refused: an error, and nothing done.
"""

import os

os.setpriority(os.PRIO_PROCESS, 1, 19)  # works where it is of the same user, and then is no other job's first process
if os.getuid() == os.stat("/proc/1").st_uid or os.getpriority(os.PRIO_PROCESS, 1) != 19:
    raise OSError("it goes on as before")
