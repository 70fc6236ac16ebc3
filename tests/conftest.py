"""What every test may count on: one processor thread, and that Ctrl-C is heard.

Tiny models are faster on one thread, and many times faster where something else runs beside the tests: threads that
wait for each other at every small product wait for the other program too. Processes that tests start inherit it.
"""

import os
import signal

os.environ.setdefault("OMP_NUM_THREADS", "1")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # the tests were started in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)
