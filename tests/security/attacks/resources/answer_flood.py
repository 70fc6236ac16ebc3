"""Tries: write answers without end.

Must: be stopped at the output cap.
"""

import os

LIMITS = {"output_bytes": 10000}
ENDINGS = ("over_output",)

while True:
    os.write(int(os.environ["BURNISH_ANSWER_FD"]), b"x" * 65536)
