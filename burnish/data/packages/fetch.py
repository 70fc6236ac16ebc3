"""Get an sdist from a package index, check its hash, and read it; nothing of it is executed.

Decisions: the index is asked by its own protocol (PEP 503 and 691, https://peps.python.org/pep-0691/) and not through
pip, which runs a package's build code when it downloads an sdist. What is kept in the cache is checked again when it is
used. An archive is read member by member: regular files only, names that stay within, caps on number and bytes.
"""

import gzip
import hashlib
import json
import os
import tarfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import urljoin

from burnish.core.errors import ConfigError
from burnish.data.packages.catalogue import Package

INDEX: Final = "https://pypi.org/simple"
LARGEST_SDIST: Final = 16 << 20
LARGEST_TREE: Final = 64 << 20
MOST_FILES: Final = 5_000
TIMEOUT_S: Final = 60.0


def sdist(package: Package, cache: Path, index: str = INDEX) -> dict[str, bytes]:
    """The files of a package's sdist, by name below its top folder."""
    kept = cache / package.file
    if not kept.is_file() or _sha256(kept.read_bytes()) != package.sha256:
        content = _download(_url(package, index), package)
        if _sha256(content) != package.sha256:
            raise ConfigError(
                f"package {package.name!r}: {package.file} of {index} has the hash {_sha256(content)}; "
                f"the catalogue pins {package.sha256}: do not use it"
            )
        cache.mkdir(parents=True, exist_ok=True)
        beside = kept.with_name(f".{kept.name}.{os.getpid()}")
        beside.write_bytes(content)
        beside.rename(kept)
    return dict(_members(kept, package))


def _url(package: Package, index: str) -> str:
    """Where the index says that the file is."""
    page = f"{index.rstrip('/')}/{package.name}/"
    request = urllib.request.Request(page, headers={"Accept": "application/vnd.pypi.simple.v1+json"})
    text = _get(request, 64 << 20, package)
    try:
        files = json.loads(text)["files"]
        found = [str(file["url"]) for file in files if file["filename"] == package.file]
    except (ValueError, KeyError, TypeError):
        raise ConfigError(f"{page} gives no JSON of PEP 691; name an index that does with --index") from None
    if not found:
        raise ConfigError(f"{page} has no {package.file!r}; pin a version in the catalogue that it has")
    return urljoin(page, found[0])


def _download(url: str, package: Package) -> bytes:
    if not url.startswith(("https://", "file://")):
        raise ConfigError(f"package {package.name!r}: {url!r} is neither https nor a file")
    return _get(urllib.request.Request(url), LARGEST_SDIST, package)


def _get(request: urllib.request.Request, most: int, package: Package) -> bytes:
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as reply:
            content: bytes = reply.read(most + 1)
    except (urllib.error.URLError, TimeoutError) as error:
        way_out = f"put {package.file} into the folder sdists of the build"
        raise ConfigError(f"package {package.name!r}: cannot get {request.full_url}: {error}; {way_out}") from None
    if len(content) > most:
        raise ConfigError(f"package {package.name!r}: {request.full_url} is larger than {most} bytes")
    return content


def _members(path: Path, package: Package) -> Iterator[tuple[str, bytes]]:
    total = 0
    try:
        with tarfile.open(path, "r:gz") as archive:
            for number, member in enumerate(archive):
                parts = PurePosixPath(member.name).parts
                if not member.isreg() or len(parts) < 2 or ".." in parts or parts[0] == "/":
                    continue
                total += member.size
                if total > LARGEST_TREE or number > MOST_FILES:
                    raise ConfigError(f"package {package.name!r}: {path.name} holds more than a package should")
                file = archive.extractfile(member)
                assert file is not None
                yield "/".join(parts[1:]), file.read()
    except (tarfile.TarError, gzip.BadGzipFile, EOFError) as error:
        raise ConfigError(f"package {package.name!r}: {path.name} cannot be read: {error}") from None


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
