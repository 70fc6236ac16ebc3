"""Copies of a package that an agent's place can see: each would be the answer to all tasks of that package.

A copy is a module of the package's name on the import path, or a file with the package's own path anywhere below the
folders of programs: vendored packages (`setuptools/_vendor/more_itertools/more.py`), compiled files, and members of
wheels and other archives count. One walk looks for all packages.
Not covered: copies under other names.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

from burnish.core.errors import SandboxError
from burnish.data.packages.catalogue import Tree
from burnish.sandbox import Backend, ResourceLimits
from burnish.sandbox.place import Command, PlaceSpec

LIMITS: Final = ResourceLimits(wall_s=600.0, cpu_s=300.0, memory_mb=512, num_processes=8)
LOOK: Final = r"""
import importlib.util, json, os, re, sys, zipfile
order = json.load(sys.stdin)
sys.path[:] = [folder for folder in sys.path if folder not in ("", os.getcwd())]
owners = {tail: name for name, one in order.items() for tail in one["tails"]}
found = {name: [each for each in one["modules"] if importlib.util.find_spec(each)] for name, one in order.items()}

def look(path, inner=""):
    parts = [part for part in (inner or path).split("/") if part != "__pycache__"]
    parts[-1] = re.sub(r"(\.cpython-\d+)?(\.opt-\d)?\.pyc$", ".py", parts[-1])
    name = owners.get("/".join(parts[-2:])) or owners.get(parts[-1])
    if name:
        found[name].append(path)

for root in ("/usr", "/python", "/site", "/opt", "/home", "/root", "/var"):
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            if name.endswith((".py", ".pyc")):
                look(path)
            elif name.endswith((".whl", ".egg", ".zip", ".pyz")) and zipfile.is_zipfile(path):
                for inner in zipfile.ZipFile(path).namelist():
                    look(path, inner)
print(json.dumps({name: some[:3] for name, some in found.items() if some}))
"""


async def copies(trees: Sequence[Tree], box: Backend) -> dict[str, str]:
    """Find copies of packages that a place sees: package's name to one of them."""
    order = {tree.package.name: {"modules": tree.package.modules, "tails": tails(tree)} for tree in trees}
    place = await box.start(PlaceSpec(limits=LIMITS))
    try:
        command = Command(argv=("python3", "-c", LOOK), stdin=json.dumps(order).encode(), wall_s=LIMITS.wall_s)
        done = await place.run(command)
    finally:
        await place.stop()
    if done.exit_code != 0:
        last = done.stderr[-400:].decode(errors="replace")
        raise SandboxError(f"packages: the look for copies of them failed ({done.ending}): {last}")
    found: Mapping[str, Sequence[str]] = json.loads(done.stdout)
    return {name: some[0] for name, some in found.items()}


def tails(tree: Tree) -> list[str]:
    """The ends of paths that tell a package: two parts of its own files, and its top as a folder or as one file."""
    found: set[str] = set()
    for name in tree.sources:
        path = PurePosixPath(name)
        if path.name != "__init__.py" and len(path.parts) > 1:
            found.add("/".join(path.parts[-2:]))
    tops = {name for module in tree.package.modules for name in (f"{module}/__init__.py", f"{module}.py")}
    return sorted(found | tops & set(tree.sources))
