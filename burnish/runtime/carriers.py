"""Carriers within one host: shared memory that nobody must clean up, and files.

Memory is anonymous (`memfd_create`) and is opened by others through /proc: when the process that put it there ends, by
whatever means, it is gone. Files are for hosts without /proc, and for a folder that several hosts share.
"""

import mmap
import os
import uuid
from pathlib import Path

import numpy as np
import numpy.typing as npt

from burnish.runtime.transport import Handle, TransportError

Bytes = npt.NDArray[np.uint8]


class MemoryCarrier:
    """Buckets are shared memory of the process that puts them, readable by those of the same user."""

    def __init__(self) -> None:
        self._descriptors: dict[str, int] = {}

    def __reduce__(self) -> tuple[type["MemoryCarrier"], tuple[()]]:
        """Another process reads with one of its own."""
        return MemoryCarrier, ()

    def put(self, bucket: Bytes) -> Handle:
        """See `Carrier`."""
        descriptor = os.memfd_create("burnish-weights")
        path = f"/proc/{os.getpid()}/fd/{descriptor}"
        self._descriptors[path] = descriptor
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(bucket.data)
        except OSError as error:
            raise TransportError(f"no memory for {bucket.nbytes} bytes of weights: {error}") from error
        return path

    def get(self, handle: Handle) -> Bytes:
        """See `Carrier`."""
        return _mapped(Path(str(handle)))

    def drop(self, handle: Handle) -> None:
        """See `Carrier`; only where it was put."""
        if (descriptor := self._descriptors.pop(str(handle), None)) is not None:
            os.close(descriptor)


class FileCarrier:
    """Buckets are files of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, bucket: Bytes) -> Handle:
        """See `Carrier`."""
        path = self._folder / f"bucket-{uuid.uuid4().hex}"
        try:
            path.write_bytes(bucket.data)
        except OSError as error:
            raise TransportError(f"cannot write weights to {str(path)!r}: {error}; make room there") from error
        return str(path)

    def get(self, handle: Handle) -> Bytes:
        """See `Carrier`; the file is mapped, not read."""
        return _mapped(Path(str(handle)))

    def drop(self, handle: Handle) -> None:
        """See `Carrier`."""
        Path(str(handle)).unlink(missing_ok=True)


def _mapped(path: Path) -> Bytes:
    try:
        with path.open("rb") as file:
            if not os.fstat(file.fileno()).st_size:
                return np.empty(0, np.uint8)
            return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    except OSError as error:
        raise TransportError(str(error)) from error
