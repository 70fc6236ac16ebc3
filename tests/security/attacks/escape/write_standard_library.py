"""Tries: change the standard library for the jobs to come.

Must: be refused: an error, and nothing done.
"""

import os

open(os.__file__, "a").write("x = 1")
