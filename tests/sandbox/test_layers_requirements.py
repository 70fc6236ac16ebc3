"""Layers of pinned wheels: built once, by content, whole or not at all, and importable in a place."""

import asyncio
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from burnish.core.errors import SandboxError
from burnish.core.types import sha256_json
from burnish.sandbox import missing
from burnish.sandbox.dependencies import cache, requirements, uses
from burnish.sandbox.local_place import LocalPlaces
from burnish.sandbox.place import Command, PlaceSpec

HELD = """
import asyncio, sys
from pathlib import Path
from burnish.sandbox.dependencies import cache

async def fill(tree):
    (tree / "half").write_text("half")
    print("filling", flush=True)
    sys.stdin.read()

asyncio.run(cache.get(Path(sys.argv[1]), {"name": "held"}, fill))
"""


def make_wheel(folder: Path, name: str = "tinypack", version: str = "1.0", body: str = "VALUE = 41\n") -> None:
    folder.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}/__init__.py": body,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name}={name}:main\n",
    }
    record = "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in {**files, f"{info}/RECORD": record}.items():
            wheel.writestr(path, text)


@pytest.fixture
def wheels(tmp_path):
    make_wheel(tmp_path / "wheels")
    return tmp_path / "wheels"


@pytest.fixture
def build(tmp_path):
    def build_one(*lines, **rest):
        return asyncio.run(requirements.build(lines, kept_in=tmp_path / "layers", **rest))

    return build_one


def test_the_same_content_is_built_once_and_other_content_is_another_layer(build, wheels):
    first, again = build("tinypack==1.0", wheels=wheels), build("# pinned", " tinypack==1.0 ", wheels=wheels)
    make_wheel(wheels, body="VALUE = 42\n")
    other = build("tinypack==1.0", wheels=wheels)
    assert [first.was_cached, again.was_cached, other.was_cached] == [False, True, False]
    assert first.path == again.path != other.path and cache.is_intact(first)


USES = """
import asyncio, sys
from pathlib import Path
from burnish.sandbox.dependencies import cache

async def fill(tree):
    (tree / "data").write_bytes(bytes(1 << 20))
    return False

asyncio.run(cache.get(Path(sys.argv[1]), {"name": sys.argv[2]}, fill))
print("got", flush=True)
sys.stdin.read()
"""


@contextmanager
def another_that_got(layers: Path, name: str) -> Iterator[None]:
    """Another process that got a layer of a megabyte, and lives during the block."""
    process = subprocess.Popen(
        [sys.executable, "-c", USES, str(layers), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "got\n"
        yield


TRIM = """
import sys
from pathlib import Path
from burnish.sandbox.dependencies import cache

print("ready", flush=True)
sys.stdin.read()
cache.trim(Path(sys.argv[1]), 0)
"""


def test_two_that_trim_at_once_leave_the_other_what_it_is_removing(tmp_path):
    layers = tmp_path / "layers"
    for number in range(40):
        manifest = cache.Manifest(format=1, inputs={}, num_bytes=1, replaces_all=False, listing="", content="")
        layer = layers / sha256_json(number)  # keys that differ in their first bits, or they are in use together
        (layer / "tree").mkdir(parents=True)
        (layer / "manifest.json").write_text(manifest.model_dump_json())
    command = [sys.executable, "-c", TRIM, str(layers)]
    both = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for each in both:
        assert each.stdout is not None and each.stdout.readline() == "ready\n"
    for each in both:
        assert each.stdin is not None
        each.stdin.close()
    assert [each.wait() for each in both] == [0, 0]
    assert not list(layers.glob("[!.]*"))
    for each in both:
        assert each.stdout is not None
        each.stdout.close()


def is_unused_elsewhere(layers: Path, key: str) -> bool:
    """Whether another process, which a fork is, finds a layer unused."""
    child = os.fork()
    if child == 0:
        with uses.unused(layers, key) as is_unused:
            os._exit(is_unused)
    return bool(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def test_a_thread_uses_no_layer_that_another_thread_removes(tmp_path):
    key, began = sha256_json("layer"), threading.Event()
    user = threading.Thread(target=lambda: (began.set(), uses.hold(tmp_path, key)))
    with uses.unused(tmp_path, key) as is_unused:
        assert is_unused
        user.start()
        assert began.wait(5.0)
        user.join(0.1)
        assert user.is_alive()
    user.join(5.0)
    with uses.unused(tmp_path, key) as is_unused:
        assert not is_unused
    assert not is_unused_elsewhere(tmp_path, key)


def test_a_layer_is_held_on_to_when_another_of_nearly_its_key_is_asked_about(tmp_path):
    key = sha256_json("layer")
    alike = key[: uses.NUM_DIGITS] + sha256_json("another")[uses.NUM_DIGITS :]
    uses.hold(tmp_path, key)
    with uses.unused(tmp_path, alike) as is_unused:
        assert not is_unused
    assert not is_unused_elsewhere(tmp_path, key)


def test_a_file_of_somebody_else_in_the_cache_is_no_layer_and_stays(tmp_path):
    (tmp_path / "notes.txt").write_text("no layer")
    cache.trim(tmp_path, 0)
    assert (tmp_path / "notes.txt").exists()


def kept(layers: Path) -> set[str]:
    return {json.loads(path.read_text())["inputs"]["name"] for path in layers.glob("*/manifest.json")}


def test_what_was_used_longest_ago_goes_and_never_what_is_in_use(tmp_path, monkeypatch):
    layers = tmp_path / "layers"
    for name in ("old", "older", "mine"):
        with another_that_got(layers, name):
            pass
    with another_that_got(layers, "old"), another_that_got(layers, "theirs"):  # "old" is used again
        assert kept(layers) == {"old", "older", "mine", "theirs"}
        cache.trim(layers, 3 << 20)
        assert kept(layers) == {"old", "mine", "theirs"}
        cache.trim(layers, 0)
        assert kept(layers) == {"old", "theirs"}

    async def fill(tree: Path) -> bool:
        (tree / "data").write_bytes(bytes(3 << 20))
        return False

    monkeypatch.setenv("BURNISH_LAYERS_MB", "2")
    layer = asyncio.run(cache.get(layers, {"name": "large"}, fill))
    assert kept(layers) == {"large"} and cache.is_intact(layer) and not list(layers.glob(".building-*"))
    monkeypatch.setenv("BURNISH_LAYERS_MB", "2GB")
    with pytest.raises(SandboxError, match="BURNISH_LAYERS_MB = '2GB'; expected a number of megabytes"):
        asyncio.run(cache.get(layers, {"name": "other"}, fill))


def test_a_hash_is_held_to(build, wheels):
    digest = hashlib.sha256((wheels / "tinypack-1.0-py3-none-any.whl").read_bytes()).hexdigest()
    assert build("tinypack==1.0 \\", f"    --hash=sha256:{digest}", "    # via nothing", wheels=wheels).num_bytes > 0
    with pytest.raises(SandboxError, match="DO NOT MATCH THE HASHES"):
        build(f"tinypack==1.0 --hash=sha256:{'0' * 64}", wheels=wheels)


def test_a_wheel_that_is_not_asked_for_does_not_matter(build, wheels):
    build("tinypack==1.0", wheels=wheels)
    make_wheel(wheels, "otherpack")
    assert build("tinypack==1.0", wheels=wheels).was_cached


def test_an_index_is_asked_once(build, wheels, tmp_path):
    page = tmp_path / "simple" / "tinypack" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text(f'<a href="file://{wheels}/tinypack-1.0-py3-none-any.whl">tinypack-1.0-py3-none-any.whl</a>')
    index_url = f"file://{tmp_path}/simple"
    first = build("tinypack==1.0", index_url=index_url)
    page.unlink()
    again = build("tinypack==1.0", index_url=index_url)
    assert again.was_cached and again.path == first.path


@pytest.mark.parametrize(
    "line", ["tinypack", "tinypack>=1", "tinypack==1.*", "-r more.txt", "tinypack @ file:///x", "a==1 --pre", "-e ."]
)
def test_what_is_not_pinned_is_refused(build, wheels, line):
    with pytest.raises(SandboxError, match="not pinned; expected 'name==version'"):
        build(line, wheels=wheels)


def test_a_source_distribution_is_refused_unrun_with_the_way_out(build, wheels, tmp_path):
    files = {
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
        "backend.py": f"open({str(tmp_path / 'canary')!r}, 'w')\n",
        "PKG-INFO": "Metadata-Version: 2.1\nName: sourcepack\nVersion: 1.0\n",
    }
    with tarfile.open(wheels / "sourcepack-1.0.tar.gz", "w:gz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(f"sourcepack-1.0/{name}")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    with pytest.raises(SandboxError, match=r"not taken.*sourcepack-1\.0\.tar\.gz; build a wheel inside the sandbox"):
        build("sourcepack==1.0", wheels=wheels)
    assert not (tmp_path / "canary").exists() and not list((tmp_path / "layers").glob("[!.]*"))


@pytest.mark.parametrize("url", ["http://index/simple", "https://me:word@index/simple"])
def test_an_index_that_is_open_to_others_is_refused_and_not_repeated(build, url):
    with pytest.raises(SandboxError, match="https") as refused:
        build("tinypack==1.0", index_url=url)
    assert "word@" not in str(refused.value)


def test_two_builders_at_once_build_one_layer(tmp_path):
    fills = []

    async def fill(tree):
        fills.append(tree)
        await asyncio.sleep(0)
        (tree / "file").write_text("x")
        return False

    async def both():
        return await asyncio.gather(*(cache.get(tmp_path / "layers", {"name": "one"}, fill) for _ in range(2)))

    layers = asyncio.run(both())
    assert len(fills) == 1 and sorted(layer.was_cached for layer in layers) == [False, True]


def test_a_builder_that_is_killed_leaves_no_half_layer(tmp_path):
    kept = tmp_path / "layers"
    argv = [sys.executable, "-c", HELD, str(kept)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path.cwd()) as builder:
        assert builder.stdout and builder.stdout.readline() == b"filling\n"
        os.kill(builder.pid, signal.SIGKILL)
        builder.wait()
    assert list(kept.glob(".building-*/tree/half")) and not list(kept.glob("[!.]*"))

    async def fill(tree):
        (tree / "whole").write_text("whole")
        return False

    asyncio.run(cache.get(kept, {"name": "another"}, fill))
    assert not list(kept.glob(".building-*"))
    layer = asyncio.run(cache.get(kept, {"name": "held"}, fill))
    assert os.listdir(layer.path) == ["whole"]


def test_a_builder_that_fails_leaves_nothing(tmp_path):
    async def fill(tree):
        (tree / "half").write_text("half")
        raise SandboxError("no")

    with pytest.raises(SandboxError):
        asyncio.run(cache.get(tmp_path / "layers", {"name": "one"}, fill))
    assert all(name == ".uses" or name.startswith(".lock-") for name in os.listdir(tmp_path / "layers"))


def test_a_damaged_layer_is_built_anew(build, wheels):
    first = build("tinypack==1.0", wheels=wheels)
    module = first.path / ".packages/tinypack/__init__.py"
    module.write_text("VALUE = 666\n")
    assert not cache.is_intact(first)
    assert not build("tinypack==1.0", wheels=wheels).was_cached
    assert module.read_text() == "VALUE = 41\n"


def test_a_layer_is_importable_in_a_place_beside_what_the_host_gives(build, wheels):
    if lacks := missing():
        pytest.skip(f"this host cannot isolate: {'; '.join(lacks)}")
    make_wheel(wheels, body="import pydantic\ndef main(): print(6 * 7)\n")
    spec = requirements.with_layers(PlaceSpec(), build("tinypack==1.0", wheels=wheels))

    async def run():
        places = LocalPlaces()
        try:
            place = await places.start(replace(spec, limits=replace(spec.limits, memory_mb=1024)))
            return await place.run(Command(argv=("tinypack",)))
        finally:
            await places.stop()

    outcome = asyncio.run(run())
    assert outcome.stdout == b"42\n", outcome
