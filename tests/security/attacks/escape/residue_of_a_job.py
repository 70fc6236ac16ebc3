"""Tries: read what another job left in its folders.

Must: be refused: an error, and nothing done.
"""

import os

if not os.path.exists("/tmp/left") and not os.path.exists("/dev/shm/left"):
    for folder in ("/tmp", "/dev/shm"):
        open(folder + "/left", "w").close()
    raise OSError("nothing was left")
