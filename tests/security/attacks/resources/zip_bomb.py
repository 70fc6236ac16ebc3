"""Tries: unpack a small archive into much memory.

Must: be stopped at the memory limit.
"""

import zlib

ENDINGS = ("over_memory",)

packed = zlib.compress(bytes(64 << 20))
x = [zlib.decompress(packed) for _ in range(40)]
