"""Tries: end the first thread and go on in another, so that the process seems to be over.

Must: end with its processor time.
"""

import ctypes
import threading

LIMITS = {"wall_s": 60.0, "cpu_s": 1.0}
ENDINGS = ("timed_out",)


def spin() -> None:
    while True:
        pass


threading.Thread(target=spin).start()
ctypes.CDLL(None).pthread_exit(None)
