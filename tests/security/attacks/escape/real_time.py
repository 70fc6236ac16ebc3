"""Tries: be scheduled before all else.

Must: be refused: an error, and nothing done.
"""

import os

os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
