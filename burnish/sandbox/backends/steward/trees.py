"""The tree of `/work` as one archive, seen from within; loaded when first asked for, since few need it."""

import base64
import io
import os
import shutil
import tarfile
from typing import Any

from burnish.sandbox.backends.steward.files import Refused, Request


def pack(request: Request) -> dict[str, Any]:
    """Put the tree of `/work` into an archive of at most `cap_bytes`."""
    out = _Capped(request["cap_bytes"])
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(os.listdir(request["work"])):
            archive.add(os.path.join(request["work"], name), name)
    return {"content": base64.b64encode(out.getvalue()).decode()}


def unpack(request: Request) -> dict[str, Any]:
    """Put an archive in place of what `/work` holds."""
    for name in os.listdir(request["work"]):
        path = os.path.join(request["work"], name)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(request["content"]))) as archive:
        if hasattr(tarfile, "fully_trusted_filter"):  # it goes back to where it came from
            archive.extraction_filter = staticmethod(tarfile.fully_trusted_filter)
        archive.extractall(request["work"])
    return {}


class _Capped(io.BytesIO):
    def __init__(self, cap_bytes: int) -> None:
        super().__init__()
        self.cap_bytes = cap_bytes

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > self.cap_bytes:
            raise Refused(f"the tree of /work is larger than {self.cap_bytes} bytes as an archive")
        return super().write(data)
