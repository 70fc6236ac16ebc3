"""Tries: leave a start-up file for the next job.

Must: be refused: an error, and nothing done.
"""

import sysconfig

open(sysconfig.get_path("purelib") + "/evil.pth", "w").write("import os")
