"""Archives that somebody else packed, read without unpacking to disk: names and bytes, or a refusal.

zip, tar, tar.gz, tar.bz2, tar.xz. What comes out are regular files with relative names; everything is counted while it
streams, so that a bomb costs no more than the caps: entries, bytes in all, bytes for each byte packed, levels of
archives in archives.

Decisions: one bad entry refuses the whole archive, since half an answer is nobody's answer. Bad are absolute names,
`..`, backslashes, doubled names, links, devices, pipes, sparse files, encryption, unknown compression. `read_in_box`
runs this very file inside the sandbox and reads back a list of lengths, so that not even a fault in a C library
meets the trainer; `read` is for bytes of which that much is known to be good.
Covered: any bytes end in files or `BadArchive`. Not covered: 7z, rar, zstd; permissions and times (they are dropped).
"""

import bz2
import io
import json
import lzma
import os
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import Any, cast

CHUNK = 1 << 20
XZ_MEMORY = 64 << 20
MAGIC = {b"\x1f\x8b": "gz", b"BZh": "bz2", b"\xfd7zXZ\x00": "xz"}
ZIP_ENTRY = b"PK\x01\x02"
ENCRYPTED = 0x1
LONGEST_NAME = 400
FREE_BYTES = 1 << 20
"""So much may come out whatever the ratio: small texts of one letter pack well, and harm nobody."""


class BadArchive(Exception):
    """The archive is broken, hostile or larger than allowed; the message says which."""


@dataclass(frozen=True, kw_only=True)
class Caps:
    """What an archive may come to, nested ones included."""

    num_entries: int = 1_000
    total_bytes: int = 16 << 20
    ratio: float = 100.0
    num_levels: int = 1
    """1: archives within stay closed, as bytes; 2: they are opened, and so on."""


class Budget:
    """What is left of the caps while an archive streams."""

    def __init__(self, caps: Caps, packed_bytes: int) -> None:
        self.caps = caps
        self.num_entries = 0
        self.num_bytes = 0
        self.most_bytes = min(caps.total_bytes, max(FREE_BYTES, int(caps.ratio * packed_bytes)))

    def count_entry(self) -> None:
        """One more entry."""
        self.num_entries += 1
        if self.num_entries > self.caps.num_entries:
            raise BadArchive(f"more than {self.caps.num_entries} entries")

    def count_bytes(self, num: int) -> None:
        """So many bytes more."""
        self.num_bytes += num
        if self.num_bytes > self.most_bytes:
            raise BadArchive(f"more than {self.most_bytes} bytes unpacked")


def read(data: bytes, caps: Caps | None = None) -> dict[str, bytes]:
    """Read an archive into names and bytes; `BadArchive` where it is not one to trust."""
    caps = caps or Caps()
    return _read(data, Budget(caps, len(data)), caps.num_levels)


def _read(data: bytes, budget: Budget, num_levels: int) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    try:
        for name, content in _entries(data, budget):
            if name in files:
                raise BadArchive(f"two entries named {name[:60]!a}")
            files[name] = content
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, OSError, EOFError) as error:
        raise BadArchive(f"broken: {type(error).__name__}: {str(error)[:80]}") from None
    except (ValueError, KeyError, IndexError, OverflowError, NotImplementedError, RuntimeError, MemoryError) as error:
        raise BadArchive(f"unreadable: {type(error).__name__}: {str(error)[:80]}") from None
    if num_levels > 1:
        return _opened(files, budget, num_levels - 1)
    return files


def _opened(files: dict[str, bytes], budget: Budget, num_levels: int) -> dict[str, bytes]:
    """Replace each archive among the files by what is in it, under its name as a folder."""
    found: dict[str, bytes] = {}
    for name, content in files.items():
        if kind_of(content):
            found |= {f"{name}/{inner}": data for inner, data in _read(content, budget, num_levels).items()}
        else:
            found[name] = content
    return found


def kind_of(data: bytes) -> str:
    """`zip`, `tar`, `gz`, `bz2` or `xz`; empty if it is none."""
    if data[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return "zip"
    if data[257:262] == b"ustar":
        return "tar"
    return next((kind for magic, kind in MAGIC.items() if data.startswith(magic)), "")


def _entries(data: bytes, budget: Budget) -> Iterator[tuple[str, bytes]]:
    kind = kind_of(data)
    if not kind:
        raise BadArchive("neither zip nor tar")
    return _zip_entries(data, budget) if kind == "zip" else _tar_entries(data, kind, budget)


def _zip_entries(data: bytes, budget: Budget) -> Iterator[tuple[str, bytes]]:
    if data.count(ZIP_ENTRY) > budget.caps.num_entries:  # before `zipfile` makes an object of each
        raise BadArchive(f"more than {budget.caps.num_entries} entries")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for entry in archive.infolist():
            budget.count_entry()
            name = checked_name(entry.filename.rstrip("/"))
            file_type = (entry.external_attr >> 16) & 0o170000
            if entry.flag_bits & ENCRYPTED:
                raise BadArchive(f"{name[:60]!a} is encrypted")
            if file_type not in (0, 0o100000, 0o040000):
                raise BadArchive(f"{name[:60]!a} is no regular file")
            if entry.is_dir():
                continue
            with archive.open(entry) as file:
                yield name, _read_counted(file, budget)


def _tar_entries(data: bytes, kind: str, budget: Budget) -> Iterator[tuple[str, bytes]]:
    stream = io.BytesIO(data if kind == "tar" else _unpacked(data, kind, budget))
    with tarfile.open(fileobj=stream, mode="r:") as archive:
        while (entry := archive.next()) is not None:
            budget.count_entry()
            archive.members = []  # pyright: ignore[reportAttributeAccessIssue] - it would keep every header
            name = checked_name(entry.name.rstrip("/"))
            if entry.isdir():
                continue
            if not entry.isreg() or entry.issparse():
                raise BadArchive(f"{name[:60]!a} is no regular file")
            file = archive.extractfile(entry)
            assert file is not None
            yield name, _read_counted(file, budget)


def _unpacked(data: bytes, kind: str, budget: Budget) -> bytes:
    """Unpack a compressed tar within what is left; its bytes count once more as those of its files."""
    room = budget.most_bytes - budget.num_bytes + 1024 * (2 * budget.caps.num_entries + 20)
    packer: Any = (
        zlib.decompressobj(31)
        if kind == "gz"
        else bz2.BZ2Decompressor()
        if kind == "bz2"
        else lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY)
    )
    out = bytearray()
    left = data
    while not packer.eof:
        chunk = packer.decompress(left, CHUNK)
        left = packer.unconsumed_tail if kind == "gz" else b""
        out += chunk
        if len(out) > room:
            raise BadArchive(f"more than {budget.most_bytes} bytes unpacked")
        if not chunk and not left and (kind == "gz" or packer.needs_input):
            raise BadArchive("broken: it ends too soon")
    return bytes(out)


def _read_counted(file: Any, budget: Budget) -> bytes:
    chunks: list[bytes] = []
    while chunk := file.read(CHUNK):
        budget.count_bytes(len(chunk))
        chunks.append(chunk)
    return b"".join(chunks)


def checked_name(name: str) -> str:
    """A relative name that stays below its folder; `BadArchive` otherwise."""
    path = PurePosixPath(name)
    bad = not path.parts or path.is_absolute() or ".." in path.parts or "\\" in name or len(name) > LONGEST_NAME
    if bad or any(ord(letter) < 32 or 0xD800 <= ord(letter) < 0xE000 for letter in name) or path.parts[0][1:2] == ":":
        raise BadArchive(f"bad name {name[:60]!a}")
    return str(path)


def main() -> None:
    """Inside the sandbox: the archive is `archive`, the caps are on stdin; lengths, a newline, then all bytes."""
    with open("archive", "rb") as file:
        data = file.read()
    try:
        files = read(data, Caps(**json.load(sys.stdin)))
        head: Mapping[str, object] = {"files": [[name, len(content)] for name, content in files.items()]}
    except BadArchive as error:
        files, head = cast("dict[str, bytes]", {}), {"refused": str(error)}
    with os.fdopen(int(os.environ["BURNISH_ANSWER_FD"]), "wb") as answer:
        answer.write(json.dumps(head).encode() + b"\n" + b"".join(files.values()))


def as_input(caps: Caps) -> bytes:
    """The caps as `main` reads them."""
    return json.dumps(asdict(caps)).encode()


if __name__ == "__main__":
    main()
