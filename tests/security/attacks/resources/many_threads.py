"""Tries: start more threads than it may.

Must: be refused: an error, and nothing done.
"""

import threading
import time

for _ in range(200):
    try:
        threading.Thread(target=time.sleep, args=(5,), daemon=True).start()
    except RuntimeError as error:
        raise OSError("no more threads") from error
