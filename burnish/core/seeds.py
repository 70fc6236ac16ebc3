"""Seeds that depend on names and not on order, so that a resumed run draws what an unbroken one draws."""

import hashlib


def derive(seed: int, *names: str | int) -> int:
    """Derive a 63-bit seed from a parent seed and a path of names."""
    text = "/".join([str(seed), *map(str, names)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 1
