"""Tries: write without end.

Must: be stopped at the output cap.
"""

import os

LIMITS = {"output_bytes": 10000}
ENDINGS = ("over_output",)

while True:
    os.write(1, b"x" * 65536)
