"""What leaves a place: declared regular files within the caps, and archives that harm nobody."""

import asyncio
import bz2
import gzip
import io
import lzma
import os
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from burnish.core.errors import SandboxError
from burnish.rewards import archives
from burnish.rewards.archives import BadArchive, Caps, read
from burnish.rewards.artifacts import ArtifactCaps, collect, matches, read_in_box
from burnish.sandbox import Outcome, missing, open_box
from burnish.sandbox.local_place import LocalPlaces
from burnish.sandbox.place import Command, PlaceSpec


class FolderPlace:
    """A place over a folder of the test: reads as the contract says, runs the real `sh`."""

    def __init__(self, root: Path, listing: bytes | None = None, *, is_broken: bool = False, code: int = 0) -> None:
        self.root, self.listing, self.is_broken, self.code = root, listing, is_broken, code

    async def run(self, command):
        if self.is_broken:
            raise SandboxError("the place is gone")
        out = self.listing
        if out is None:
            out = subprocess.run(command.argv, cwd=self.root, capture_output=True, check=True).stdout
        cut = len(out) > command.output_bytes
        ending = "over_output" if cut else "exited"
        return Outcome(
            ending=ending,
            exit_code=None if cut else self.code,
            stdout=out[: command.output_bytes],
            stderr=b"",
            answer=b"",
            wall_s=0.1,
        )

    async def read(self, path: str, cap_bytes: int) -> bytes:
        file = self.root / path
        if self.is_broken or file.is_symlink() or not file.is_file() or file.stat().st_size > cap_bytes:
            raise SandboxError(f"cannot read {path!r} as a regular file of at most {cap_bytes} bytes")
        return file.read_bytes()

    async def write(self, path, content): ...
    async def snapshot(self):
        return ""

    async def restore(self, snapshot): ...
    async def stop(self): ...


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("a.txt", "out/b.csv", "out/c.csv", "out/deep/d.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    os.symlink("/etc/passwd", tmp_path / "out/link.csv")
    os.mkfifo(tmp_path / "out/pipe.csv")
    return tmp_path


def gather(place, patterns, **caps):
    return asyncio.run(collect(place, patterns, ArtifactCaps(**caps)))


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        (["a.txt"], {"a.txt"}),
        (["out/*.csv"], {"out/b.csv", "out/c.csv"}),
        (["**/*.csv"], {"out/b.csv", "out/c.csv", "out/deep/d.csv"}),
        (["out/?.csv", "out/b.csv"], {"out/b.csv", "out/c.csv"}),
        (["*"], {"a.txt"}),
    ],
)
def test_declared_files_come_out(patterns, names, root) -> None:
    found = gather(FolderPlace(root), patterns)
    assert set(found.files) == names and not found.is_over_caps
    assert all(content == name.encode() for name, content in found.files.items())


@pytest.mark.parametrize("name", ["out/link.csv", "out/pipe.csv", "out", "none.txt"])
def test_what_is_no_regular_file_is_refused_with_a_reason(name, root) -> None:
    found = gather(FolderPlace(root), [name])
    assert not found.files and "regular file" in found.refused[name]


def test_a_listing_that_lies_gets_nothing_out(root) -> None:
    lies = b"../../etc/passwd\0/etc/passwd\0./out/link.csv\0\xff\xfe\0a\nb\0out/../../x\0./out/b.csv\0cut off"
    found = gather(FolderPlace(root, lies), ["**/*"])
    assert set(found.files) == {"out/b.csv"} and set(found.refused) == {"out/link.csv"}


def test_a_listing_without_end_and_too_many_files_are_over_the_caps(root) -> None:
    endless = gather(FolderPlace(root, b"./out/b.csv\0" * 200_000), ["out/*"])
    assert endless.is_over_caps and set(endless.files) == {"out/b.csv"}
    assert gather(FolderPlace(root), ["**/*.csv"], num_files=2).is_over_caps
    assert gather(FolderPlace(root), ["a.txt", "out/b.csv"], total_bytes=5).is_over_caps


def test_a_place_that_cannot_list_its_files_refuses_wildcards_alone(root) -> None:
    found = gather(FolderPlace(root, b"", code=127), ["a.txt", "out/*"])
    assert set(found.files) == {"a.txt"} and "cannot list its files" in found.refused["out/*"]


def test_names_of_any_bytes_are_listed(root) -> None:
    for name in (".hidden", "..two", "out/a b", "out/*", "out/-n", "out/\\0"):
        (root / name).write_bytes(b"")
    assert {".hidden", "..two", "out/a b", "out/*", "out/-n"} < set(gather(FolderPlace(root), ["**/*"]).files)


@pytest.mark.skipif(bool(missing()), reason="places need an isolating host")
def test_files_come_out_of_a_real_place_in_which_nothing_but_sh_is_found(root, tmp_path_factory) -> None:
    layer = tmp_path_factory.mktemp("layer")
    (layer / "given.csv").write_text("given")
    spec = PlaceSpec(layers=(layer,), env={"PATH": "/nowhere:/work/bin"})
    script = (
        "mkdir -p out/deep; echo 1 > out/b.csv; echo 2 > out/deep/d.csv; ln -s /etc/passwd out/link.csv;"
        "mkfifo out/pipe.csv; echo later > 'out/a b.csv'; ln -s /etc out/folder"
    )

    async def go() -> None:
        places = LocalPlaces()
        try:
            place = await places.start(spec)
            await place.run(Command(argv=("/bin/sh", "-c", script), env={"PATH": "/usr/bin:/bin"}))
            assert (await collect(place, ["**/*.csv"])).refused  # no sh on this PATH
            await place.run(Command(argv=("/bin/sh", "-c", "/bin/mkdir bin; /bin/ln -s /bin/sh /bin/true bin")))
            found = await collect(place, ["**/*.csv", "out/link.csv", "out/none"], ArtifactCaps(file_bytes=6))
            assert found.files == {
                "given.csv": b"given", "out/b.csv": b"1\n", "out/deep/d.csv": b"2\n", "out/a b.csv": b"later\n",
            }  # fmt: skip
            assert set(found.refused) == {"out/link.csv", "out/none"}
            await place.stop()
            with pytest.raises(SandboxError):
                await collect(place, ["given.csv"])
        finally:
            await places.stop()

    asyncio.run(go())


def test_a_file_over_its_cap_is_refused(root) -> None:
    assert set(gather(FolderPlace(root), ["a.txt"], file_bytes=4).refused) == {"a.txt"}


def test_a_place_that_broke_is_not_the_agents_fault(root) -> None:
    with pytest.raises(SandboxError, match="gone"):
        gather(FolderPlace(root, is_broken=True), ["a.txt"])


@pytest.mark.parametrize(
    ("name", "pattern", "fits"),
    [
        ("a/b/c.py", "**/c.py", True),
        ("c.py", "**/c.py", True),
        ("a/b/c.py", "a/**", True),
        ("a/b/c.py", "a/*", False),
        ("a/b/c.py", "a/**/b/c.py", True),
        ("abc", "a*c", True),
        ("abcd", "a*c", False),
        ("ab", "a?", True),
        ("a", "a?", False),
        ("a" * 400, "*a" * 100 + "b", False),
        ("/".join("a" * 150), "**/" * 40 + "b", False),
    ],
)
def test_patterns(name, pattern, fits) -> None:
    assert matches(name, pattern) is fits


def zip_of(*entries: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED, mode: int = 0o100644) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in entries:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, content, method)
    return buffer.getvalue()


def tar_of(*entries: tuple[str, bytes], kind: bytes = tarfile.REGTYPE, link: str = "") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in entries:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.size = kind, link, len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


FILES = (("a.txt", b"one"), ("d/b.bin", b"\0\1" * 500))


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress], ids=["tar", "gz", "bz2", "xz"])
def test_archives_come_out_as_they_went_in(pack) -> None:
    assert read(pack(tar_of(*FILES))) == dict(FILES)
    assert read(zip_of(*FILES)) == dict(FILES) == read(zip_of(*FILES, method=zipfile.ZIP_LZMA))


ZEROS = b"\0" * (8 << 20)
BOMB = {"total_bytes": 4 << 20, "num_entries": 50}
HOSTILE = {
    "zip traversal": zip_of(("../x", b"")),
    "zip absolute": zip_of(("/etc/x", b"")),
    "zip backslash": zip_of(("a\\..\\x", b"")),
    "zip drive": zip_of(("C:x", b"")),
    "zip link": zip_of(("x", b"/etc/passwd"), mode=0o120777),
    "zip bomb": zip_of(("x", ZEROS)),
    "zip of many": zip_of(*((f"f{i}", b"") for i in range(60))),
    "zip cut off": zip_of(*FILES)[:-30],
    "zip damaged": zip_of(("x", b"y" * 100), method=zipfile.ZIP_STORED).replace(b"yyyy", b"yzyy", 1),
    "tar traversal": tar_of(("a/../../x", b"")),
    "tar absolute": tar_of(("/x", b"")),
    "tar symbolic link": tar_of(("x", b""), kind=tarfile.SYMTYPE, link="/etc/passwd"),
    "tar hard link": tar_of(("x", b""), kind=tarfile.LNKTYPE, link="/etc/passwd"),
    "tar device": tar_of(("x", b""), kind=tarfile.CHRTYPE),
    "tar pipe": tar_of(("x", b""), kind=tarfile.FIFOTYPE),
    "tar doubled": tar_of(("x", b"1"), ("./x", b"2")),
    "tar of many": tar_of(*((f"f{i}", b"") for i in range(60))),
    "gz bomb": gzip.compress(tar_of(("x", ZEROS))),
    "bz2 bomb": bz2.compress(tar_of(("x", ZEROS))),
    "xz bomb": lzma.compress(tar_of(("x", ZEROS))),
    "gz cut off": gzip.compress(tar_of(*FILES))[:-40],
    "gz of nothing": gzip.compress(b"x" * 2000),
    "text": b"hello",
    "nothing": b"",
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_archive_is_refused(data: bytes) -> None:
    with pytest.raises(BadArchive):
        read(data, Caps(**BOMB))


def test_a_ratio_bounds_what_a_small_archive_may_become() -> None:
    packed = zip_of(("x", ZEROS))
    with pytest.raises(BadArchive, match="bytes unpacked"):
        read(packed, Caps(ratio=50))
    assert read(packed, Caps(ratio=5000)) == {"x": ZEROS}


def test_archives_within_stay_closed_unless_asked_and_share_the_caps() -> None:
    inner = zip_of(("deep.txt", b"1"))
    outer = zip_of(("in.zip", inner), ("b.txt", b"2"))
    assert read(outer) == {"in.zip": inner, "b.txt": b"2"}
    assert read(outer, Caps(num_levels=2)) == {"in.zip/deep.txt": b"1", "b.txt": b"2"}
    with pytest.raises(BadArchive, match="entries"):
        read(outer, Caps(num_levels=2, num_entries=2))


def test_in_a_box_the_same_comes_out_and_the_same_is_refused() -> None:
    async def go() -> None:
        async with open_box("none" if missing() else "namespaces") as box:
            assert await read_in_box(gzip.compress(tar_of(*FILES)), box) == dict(FILES)
            with pytest.raises(BadArchive, match="bad name"):
                await read_in_box(HOSTILE["zip traversal"], box)

    asyncio.run(go())


def test_names_are_checked_by_one_rule() -> None:
    assert archives.checked_name("./a//b") == "a/b"
    for name in ("", ".", "..", "/", "a\0b", "a\nb", "x" * 500):
        with pytest.raises(BadArchive):
            archives.checked_name(name)
