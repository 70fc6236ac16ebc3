"""Build a Dockerfile's layers: each instruction's result is cached by what it was made from.

`image = await building.build(text, context=folder, roots={"python:3.12": root}, places=LocalPlaces())`, then
`places.start(image.spec())`.

A key is the hash of the keys before it and of the instruction: for COPY its target and the names, modes and contents of
what it copies, for RUN its text, folder and variables. FROM names a folder of `roots`, or `burnish/host`: this host's
own programs. RUN runs in a place like any other: no network, the root read-only, `/tmp` not kept. **`/work` is all that
it may change**; a COPY or WORKDIR elsewhere is refused, and a write elsewhere fails with "Read-only file system".

A root is known by its path and the times of its main folders, not by its content: the content of a system is too
much to read at each build.

Covered: all of `dockerfile`. Not covered: a RUN's rights beyond `rwx`, extended attributes; sockets are left out.
"""

import os
import posixpath
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol

from burnish.core.errors import SandboxError
from burnish.core.types import sha256_json
from burnish.sandbox import place_root
from burnish.sandbox.dependencies import cache, capture, copying, dockerfile
from burnish.sandbox.dependencies.cache import Layer
from burnish.sandbox.dependencies.dockerfile import Instruction, refuse
from burnish.sandbox.place import ISOLATED, Command, Guarantee, PlaceSpec, Workspace
from burnish.sandbox.types import Outcome, ResourceLimits

HOST: Final = "burnish/host"
PROBES: Final = (
    "",
    "etc/os-release",
    "var/lib/dpkg/status",
    "lib/apk/db/installed",
    "var/lib/rpm",
    "usr/bin",
    "usr/lib",
    "usr/local/bin",
    "usr/local/lib",
)
BUILD_LIMITS: Final = ResourceLimits(
    wall_s=600.0,
    cpu_s=600.0,
    memory_mb=2048,
    disk_mb=1024,
    num_files=100_000,
    num_processes=128,
    output_bytes=4 << 20,
)
NEEDS: Final[frozenset[Guarantee]] = frozenset((*ISOLATED, "snapshots"))


class Places(Protocol):
    """Whatever starts workspaces; `LocalPlaces` does."""

    async def start(self, spec: PlaceSpec) -> Workspace:
        """Start one."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One instruction that made a layer, and whether it was there already."""

    line: int
    text: str
    layer: Layer


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """What a Dockerfile comes to: a root, layers of `/work`, an environment and a folder to work in."""

    rootfs: Path | None
    key: str
    layers: tuple[Path, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    workdir: str = "/work"
    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()

    def spec(self) -> PlaceSpec:
        """Describe a place made of it; `Command.cwd` is to be `workdir`."""
        return PlaceSpec(layers=self.layers, rootfs=self.rootfs, env=dict(self.env))


@dataclass(slots=True, kw_only=True)
class _Build:
    """A build under way: what does not change, and what has come of the lines so far."""

    context: Path
    places: Places
    limits: ResourceLimits
    kept_in: Path
    given: Mapping[str, str]
    before_from: Mapping[str, str]
    image: Image
    arguments: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def variables(self) -> dict[str, str]:
        """What `$NAME` means on the next line."""
        base = place_root.environment(PlaceSpec(rootfs=self.image.rootfs))
        return {**base, **self.arguments, **self.image.env}


async def build(
    text: str,
    *,
    context: Path,
    places: Places,
    roots: Mapping[str, Path] | None = None,
    arguments: Mapping[str, str] | None = None,
    limits: ResourceLimits = BUILD_LIMITS,
    kept_in: Path | None = None,
) -> Image:
    """Build what a Dockerfile describes, or take from the cache what was built before."""
    instructions = dockerfile.parse(text)
    start = next(number for number, each in enumerate(instructions) if each.name == "FROM")
    given = arguments or {}
    before: dict[str, str] = {}
    for each in instructions[:start]:
        before |= _arguments(each, given, before, {})
    state = _Build(
        context=context,
        places=places,
        limits=limits,
        kept_in=kept_in or cache.default_cache(),
        given=given,
        before_from=before,
        image=_from(instructions[start], roots or {}, before),
    )
    for each in instructions[start + 1 :]:
        await _step(state, each)
        if each.note:
            state.image = replace(state.image, notes=(*state.image.notes, each.note))
    return state.image


def _from(instruction: Instruction, roots: Mapping[str, Path], variables: Mapping[str, str]) -> Image:
    words = dockerfile.split(instruction.text, variables, instruction.line)
    if len(words) not in (1, 3) or (len(words) == 3 and words[1].upper() != "AS"):
        raise SandboxError(f"Dockerfile: line {instruction.line}: expected 'FROM name [AS name]'")
    name = words[0]
    if name != HOST and name not in roots:
        known = ", ".join(sorted({HOST, *roots}))
        refuse(
            instruction.line, f"FROM {name!r} is no known root", f"there are: {known}; unpack it and name its folder"
        )
    rootfs = roots[name].resolve() if name in roots else None
    if rootfs is not None and not rootfs.is_dir():
        raise SandboxError(f"Dockerfile: line {instruction.line}: root {name!r} is no folder: {str(rootfs)!r}")
    return Image(rootfs=rootfs, key=sha256_json({"kind": "root", "root": _identity(rootfs)}))


def _identity(rootfs: Path | None) -> list[object]:
    found: list[object] = [str(rootfs), *([sys.version, sys.prefix] if rootfs is None else [])]
    for probe in PROBES[rootfs is None :]:  # the host's `/` itself changes without meaning
        try:
            status = os.stat((rootfs or Path("/")) / probe)
        except OSError:
            continue
        found.append([probe, status.st_ino, status.st_mtime_ns])
    return found


def _arguments(
    instruction: Instruction, given: Mapping[str, str], variables: Mapping[str, str], before_from: Mapping[str, str]
) -> dict[str, str]:
    """Read an ARG: what is given counts, then its default, then what it was before FROM; else it is not set."""
    found: dict[str, str] = {}
    for word in dockerfile.split(instruction.text, variables, instruction.line):
        name, sign, default = word.partition("=")
        value = given.get(name, default if sign else before_from.get(name))
        if value is not None:
            found[name] = value
    return found


async def _step(state: _Build, instruction: Instruction) -> None:
    match instruction.name:
        case "ARG":
            state.arguments |= _arguments(instruction, state.given, state.variables, state.before_from)
        case "ENV":
            env = {**state.image.env, **dockerfile.pairs(instruction, state.variables)}
            state.image = replace(state.image, env=env)
        case "WORKDIR":
            await _workdir(state, instruction)
        case "COPY":
            await _copy(state, instruction)
        case _:
            await _run(state, instruction)


def _below_work(state: _Build, path: str, line: int, what: str) -> str:
    """A path below `/work`, relative to it."""
    whole = posixpath.normpath(posixpath.join(state.image.workdir, path))
    if whole != "/work" and not whole.startswith("/work/"):
        refuse(
            line, f"{what} {path!r} is outside of /work, the one tree that can be written", "use a folder below /work"
        )
    return whole.removeprefix("/work").lstrip("/")


async def _workdir(state: _Build, instruction: Instruction) -> None:
    words = dockerfile.split(instruction.text, state.variables, instruction.line)
    path = _below_work(state, " ".join(words), instruction.line, "WORKDIR")
    copying.folders_to(state.image.layers, f"{path}/-".lstrip("/"), instruction.line)
    if path and copying.kind_below(state.image.layers, path) is None:

        async def fill(tree: Path) -> bool:
            (tree / path).mkdir(parents=True)
            return False

        await _add(state, instruction, {"kind": "workdir", "path": path}, fill)
    state.image = replace(state.image, workdir=f"/work/{path}".rstrip("/"))


async def _copy(state: _Build, instruction: Instruction) -> None:
    line, variables = instruction.line, state.variables
    if instruction.words is not None:
        words = [dockerfile.expand(word, variables) for word in instruction.words]
    else:
        words = dockerfile.split(instruction.text, variables, line)
    if len(words) < 2:
        raise SandboxError(f"Dockerfile: line {line}: expected 'COPY source... target'")
    *sources, target = words
    is_folder = target.endswith("/") or posixpath.basename(target) == "."
    path = _below_work(state, target, line, "COPY to") + ("/" if is_folder else "")
    made = copying.items(state.context.resolve(), sources, path, state.image.layers, line)
    listed = [[item.target, item.kind, item.mode, item.content] for item in made]

    async def fill(tree: Path) -> bool:
        copying.write(made, tree, line)
        return False

    await _add(state, instruction, {"kind": "copy", "content": sha256_json(listed)}, fill)


async def _run(state: _Build, instruction: Instruction) -> None:
    argv = instruction.words or ("/bin/sh", "-c", instruction.text)
    env = {**state.arguments, **state.image.env}
    below = state.image.layers
    inputs = {"kind": "run", "argv": list(argv), "env": env, "cwd": state.image.workdir}

    async def fill(tree: Path) -> bool:
        place = await state.places.start(
            PlaceSpec(layers=below, rootfs=state.image.rootfs, limits=state.limits, needs=NEEDS)
        )
        try:
            command = Command(
                argv=argv,
                cwd=state.image.workdir,
                env=env,
                wall_s=state.limits.wall_s,
                output_bytes=state.limits.output_bytes,
            )
            _check_end(await place.run(command), instruction)
            return await capture.keep(place, below, state.limits, tree)
        finally:
            await place.stop()

    await _add(state, instruction, inputs, fill)


def _check_end(outcome: Outcome, instruction: Instruction) -> None:
    if outcome.exit_code == 0:
        return
    how = outcome.ending if outcome.exit_code is None else f"exit code {outcome.exit_code}"
    said = (outcome.stdout[-1000:] + outcome.stderr[-1000:]).decode(errors="replace").strip()
    raise SandboxError(
        f"Dockerfile: line {instruction.line}: RUN {instruction.text[:200]} ended with {how}: {said}\n"
        "(a RUN has no network, and may write below /work and /tmp only)"
    )


async def _add(state: _Build, instruction: Instruction, inputs: Mapping[str, object], fill: cache.Fill) -> None:
    image = state.image
    layer = await cache.get(state.kept_in, {**inputs, "after": image.key}, fill)
    step = Step(line=instruction.line, text=f"{instruction.name} {instruction.text}", layer=layer)
    kept = () if layer.replaces_all else image.layers
    state.image = replace(image, key=layer.key, layers=(*kept, layer.path), steps=(*image.steps, step))
