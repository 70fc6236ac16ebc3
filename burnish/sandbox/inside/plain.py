"""The program of a job under isolation `none`: set what limits there are, then run the source."""

import math
import resource
import sys
from typing import NoReturn

from burnish.sandbox.inside import program, rlimits


def main() -> NoReturn:
    """Take source file, cpu_s, memory_mb and disk_mb from the command line."""
    path, cpu_s, memory_mb, disk_mb = sys.argv[1:]
    with open(path, encoding="utf-8", errors="surrogatepass", newline="") as file:
        source = file.read()
    rlimits.forbid_cores()
    whole_s = max(1, math.ceil(float(cpu_s)))
    for name, soft, hard in (
        (resource.RLIMIT_CPU, whole_s, whole_s + 1),
        (resource.RLIMIT_FSIZE, int(disk_mb) << 20, int(disk_mb) << 20),
        (resource.RLIMIT_AS, int(memory_mb) << 20, int(memory_mb) << 20),
    ):
        rlimits.lower(name, soft, hard)
    sys.path[0] = ""
    program.run(source, lambda: None)
