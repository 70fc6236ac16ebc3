"""A layer of Python packages, from a list of pinned requirements and wheels.

`layer = await requirements.build(["attrs==25.1.0"], wheels=Path("wheels"))`, then `with_layers(spec, layer)`.

The trusted side runs pip on the host, before any place is started and out of a model's reach: nothing of a wheel
is executed by it. A source distribution runs code when it is built, so none is taken: build a wheel of it inside the
sandbox (`RUN python3 -m pip wheel` in a Dockerfile), and put that into the folder.

Decisions: the list is the whole list (`--no-deps`), each `name==version`; markers and `--hash` may follow. An index
is used only if it is named; its wheels become a cached layer of their own, so that a second build asks it nothing.
The packages lie in `/work/.packages`, and scripts in its `bin` start with `/usr/bin/env python3`.

Covered: this Python, or another one that is described by a `Python`. Not covered: pip's own resolver, editable
installs, URLs, constraint files. That a list lacks a dependency is seen when it is imported.
"""

import asyncio
import hashlib
import os
import platform
import re
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from burnish.core.errors import SandboxError
from burnish.sandbox import place_root
from burnish.sandbox.dependencies import cache
from burnish.sandbox.dependencies.cache import Layer
from burnish.sandbox.place import PlaceSpec

FOLDER: Final = ".packages"
ENV: Final = {"PYTHONPATH": f"/work/{FOLDER}", "PATH": f"/work/{FOLDER}/bin"}
JOINED: Final = ("PYTHONPATH", "PATH")
PINNED: Final = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*(\[[A-Za-z0-9._,\s-]*\])?\s*==\s*(?P<version>[A-Za-z0-9][A-Za-z0-9.!+_-]*)"
    r"\s*(;[^#]*?)?(\s+--hash=sha256:[0-9a-f]{64})*"
)
SOURCES: Final = (".tar.gz", ".zip", ".tar.bz2")
PASSED_ON: Final = ("PATH", "HOME", "TMPDIR", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "HTTPS_PROXY", "https_proxy")
PIP_S: Final = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Python:
    """A Python that is not this one, in the words of pip: `3.12`, `cp`, `cp312`, `manylinux_2_28_x86_64`."""

    version: str
    implementation: str
    abi: str
    platform: str


async def build(
    lines: Sequence[str],
    *,
    wheels: Path | None = None,
    index_url: str | None = None,
    python: Python | None = None,
    kept_in: Path | None = None,
) -> Layer:
    """Build the layer of these requirements from a folder of wheels or from an index, or take it from the cache."""
    wanted = _logical(lines)
    pins = [_pin(line) for line in wanted]
    if (wheels is None) == (index_url is None):
        raise SandboxError("layers: requirements come from one place; give either a folder of wheels or an index")
    at = kept_in or cache.default_cache()
    found = wheels if wheels is not None else (await _fetch(wanted, str(index_url), python, at)).path
    inputs: dict[str, object] = {
        "kind": "requirements",
        "lines": sorted(wanted),
        "wheels": _wheel_hashes(pins, found),
        "python": _describe(python),
    }

    async def fill(tree: Path) -> bool:
        target = tree / FOLDER
        options = ["--no-index", "--find-links", str(found.resolve()), "--target", str(target)]
        options += [] if python is None else ["--no-compile"]
        try:
            await _pip("install", wanted, options, python)
        except SandboxError as error:
            raise SandboxError(f"{error}{_sources(found)}") from error
        _free_scripts(target / "bin")
        return False

    return await cache.get(at, inputs, fill, ENV)


def with_layers(spec: PlaceSpec, *layers: Layer) -> PlaceSpec:
    """Add layers on top of those of a place; search paths are joined, the last layer's first."""
    env = {**place_root.environment(spec), **spec.env}
    added: dict[str, str] = {}
    for layer in layers:
        for name, value in layer.env.items():
            below = added.get(name, env.get(name, "")) if name in JOINED else ""
            added[name] = f"{value}:{below}" if below else value
    return replace(spec, layers=(*spec.layers, *(layer.path for layer in layers)), env={**spec.env, **added})


def _logical(lines: Sequence[str]) -> list[str]:
    """Join continued lines, and leave out comments, as in a requirements file."""
    joined = "\n".join(lines).replace("\\\n", " ").split("\n")
    plain = [" ".join(re.sub(r"(^|\s)#.*", "", line).split()) for line in joined]
    return [line for line in plain if line]


def _pin(line: str) -> tuple[str, str]:
    match = PINNED.fullmatch(line)
    if match is None or match["version"].endswith("."):
        raise SandboxError(
            f"layers: requirement {line!r} is not pinned; expected 'name==version', a marker and --hash=sha256:... "
            "may follow (pip-compile and pip freeze write such lists)"
        )
    return _plain(match["name"]), match["version"].replace("-", "_")


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()


def _wheel_hashes(pins: Sequence[tuple[str, str]], folder: Path) -> dict[str, object]:
    """Hash every wheel in the folder that may be meant; which of them fits is pip's to say."""
    if not folder.is_dir():
        raise SandboxError(f"layers: {str(folder)!r} is no folder of wheels")
    named = {path: path.name.split("-") for path in sorted(folder.iterdir()) if path.suffix == ".whl"}
    wanted = set(pins)
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path, parts in named.items()
        if len(parts) > 1 and (_plain(parts[0]), parts[1]) in wanted
    }


def _describe(python: Python | None) -> dict[str, object]:
    if python is not None:
        return dict(asdict(python))
    return {
        "version": platform.python_version(),
        "abi": str(sysconfig.get_config_var("SOABI")),
        "platform": sysconfig.get_platform(),
        "libc": " ".join(platform.libc_ver()),
    }


async def _fetch(wanted: Sequence[str], index_url: str, python: Python | None, at: Path) -> Layer:
    parts = urlsplit(index_url)
    if parts.scheme not in ("https", "file") or parts.username or parts.password:
        raise SandboxError(
            "layers: an index is https://... or file:///..., without a name or password in it (pip reads ~/.netrc)"
        )
    inputs: dict[str, object] = {
        "kind": "wheels",
        "index": index_url,
        "lines": sorted(wanted),
        "python": _describe(python),
    }

    async def fill(tree: Path) -> bool:
        await _pip("download", wanted, ["--index-url", index_url, "--dest", str(tree)], python)
        return False

    return await cache.get(at, inputs, fill)


async def _pip(verb: str, wanted: Sequence[str], options: Sequence[str], python: Python | None) -> None:
    fixed = "--isolated --disable-pip-version-check --no-input --no-cache-dir --quiet --no-deps".split()
    if python is not None:
        fixed += ["--python-version", python.version, "--implementation", python.implementation]
        fixed += ["--abi", python.abi, "--platform", python.platform]
    with tempfile.TemporaryDirectory(prefix="burnish-pip-") as scratch:
        listed = Path(scratch) / "requirements.txt"
        listed.write_text("\n".join(wanted) + "\n", encoding="utf-8")
        argv = ["-I", "-m", "pip", verb, *fixed, "--only-binary", ":all:", *options, "--requirement", str(listed)]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *argv,
            cwd=scratch,
            env={**_passed_on(), "PIP_CONFIG_FILE": os.devnull},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            said, _ = await asyncio.wait_for(process.communicate(), PIP_S)
        except TimeoutError as error:
            raise SandboxError(f"layers: pip {verb} was not done within {PIP_S:.0f} s") from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    if process.returncode != 0:
        raise SandboxError(f"layers: pip {verb} failed: {said.decode(errors='replace').strip()[-1500:]}")


def _passed_on() -> Mapping[str, str]:
    return {name: os.environ[name] for name in PASSED_ON if name in os.environ}


def _sources(folder: Path) -> str:
    """What a folder has that would have to be built, and the way to have it."""
    found = sorted(path.name for path in folder.iterdir() if path.name.endswith(SOURCES))
    if not found:
        return ""
    return (
        f"\nnot taken, since building one runs its code: {', '.join(found)}; "
        "build a wheel inside the sandbox (RUN python3 -m pip wheel) and put that into the folder"
    )


def _free_scripts(folder: Path) -> None:
    """Let scripts start with the Python of the place, not with this one by its path."""
    first = f"#!{sys.executable}\n".encode()
    for script in sorted(folder.iterdir()) if folder.is_dir() else ():
        text = script.read_bytes() if script.is_file() and not script.is_symlink() else b""
        if text.startswith(first):
            script.write_bytes(b"#!/usr/bin/env python3\n" + text[len(first) :])
