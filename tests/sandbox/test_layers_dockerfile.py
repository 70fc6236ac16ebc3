"""The Dockerfile subset: what is built, what is taken from the cache, and what is refused with its line."""

import asyncio
import io
import os
import re
import shutil
import socket
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from burnish.core.errors import SandboxError
from burnish.sandbox import ResourceLimits, missing
from burnish.sandbox.dependencies import building, capture, copying, dockerfile
from burnish.sandbox.local_place import LocalPlaces
from burnish.sandbox.place import Command

LIMITS = ResourceLimits(wall_s=60.0, cpu_s=20.0, memory_mb=512, disk_mb=8, num_files=256, num_processes=16)
HEAD = "FROM burnish/host\n"


class Builder:
    """Builds in one loop with one `LocalPlaces`, with a cache and a context of its own for each test."""

    def __init__(self, runner: asyncio.Runner, places: LocalPlaces, folder: Path) -> None:
        self.runner, self.places, self.folder, self.context = runner, places, folder, folder / "context"
        self.context.mkdir()

    def __call__(self, text: str, **rest):
        made = building.build(
            HEAD + text if "FROM" not in text else text,
            context=self.context,
            places=self.places,
            limits=LIMITS,
            kept_in=self.folder / "layers",
            **rest,
        )
        return self.runner.run(made)

    def look(self, image, script: str) -> str:
        async def run():
            place = await self.places.start(replace(image.spec(), limits=LIMITS))
            try:
                return await place.run(Command(argv=("sh", "-c", script), cwd=image.workdir))
            finally:
                await place.stop()

        outcome = self.runner.run(run())
        return (outcome.stdout + outcome.stderr).decode().strip()


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[asyncio.Runner, LocalPlaces]]:
    if lacks := missing():
        pytest.skip(f"this host cannot isolate: {'; '.join(lacks)}")
    places = LocalPlaces()
    with asyncio.Runner() as runner:
        yield runner, places
        runner.run(places.stop())


@pytest.fixture
def build(shared, tmp_path) -> Builder:
    return Builder(*shared, tmp_path)


def hits(image) -> list[bool]:
    return [step.layer.was_cached for step in image.steps]


def test_each_instruction_is_built_once_and_a_change_rebuilds_what_comes_after(build):
    text = "WORKDIR app\nCOPY a .\nRUN cat a > b\nRUN cat b > c\n"
    (build.context / "a").write_text("1")
    assert hits(build(text)) == [False] * 4
    assert hits(build(text)) == [True] * 4
    assert hits(build(text.replace("> c", "> d"))) == [True, True, True, False]
    (build.context / "a").write_text("2")
    image = build(text)
    assert hits(image) == [True, False, False, False] and build.look(image, "cat a b c") == "222"


def test_variables_reach_the_run_and_the_place(build):
    text = 'ARG WHO=x\nENV GREETING="hello $WHO" PATH=/work/bin:$PATH\nRUN echo $GREETING $WHO > said\n'
    image = build(text, arguments={"WHO": "you"})
    assert build.look(image, "cat said; echo $GREETING") == "hello you you\nhello you"
    assert image.env["PATH"].startswith("/work/bin:/python/bin:")


def test_an_argument_that_a_run_can_see_is_part_of_its_key(build):
    text = "ARG WHO=x\nRUN echo $WHO > said\n"
    build(text)
    assert not build(text, arguments={"WHO": "you"}).steps[0].layer.was_cached


def test_a_default_after_from_counts_over_one_before(build):
    image = build("ARG A=1\nARG B=2\nFROM burnish/host\nARG A\nARG B=3\nARG C\nRUN echo $A$B${C:-4} > said\n")
    assert build.look(image, "cat said") == "134"


def test_what_a_run_adds_is_a_small_layer_and_what_it_removes_is_gone(build):
    (build.context / "big").write_text("big")
    adds = build("COPY big .\nRUN mkdir -p e/f && ln -s big link && ln big hard && chmod 711 e\n")
    assert len(adds.layers) == 2 and not (adds.layers[1] / "big").exists()
    assert build.look(adds, "stat -c %a e; cat link hard; ls e") == "711\nbigbigf"
    removes = build("COPY big .\nRUN mkdir -p e/f && ln -s big link && ln big hard && chmod 711 e\nRUN rmdir e/f\n")
    assert removes.steps[-1].layer.replaces_all and build.look(removes, "find e; cat link hard") == "e\nbigbig"


@pytest.mark.parametrize("script", ["rm d/f", "rm -r d && echo x > d", "rm d/f && mkdir d/f"])
def test_what_a_run_removes_or_replaces_does_not_come_back(build, script):
    (build.context / "d").mkdir()
    (build.context / "d/f").write_text("f")
    (build.context / "d/g").write_text("g")
    image = build(f"COPY d d\nRUN {script}\nRUN echo after > after\n")
    found = {"rm d/f": "after d d/g", "rm -r d && echo x > d": "after d", "rm d/f && mkdir d/f": "after d d/f d/g"}
    assert build.look(image, "find * | sort | tr '\\n' ' '") == found[script]
    assert [step.layer.replaces_all for step in image.steps] == [False, True, False] and len(image.layers) == 2


def test_names_that_break_lists_survive(build):
    names = ["\n", " ", "-x", "\\n", "--", "a b", "é", "\udcff"]
    (build.context / "make.py").write_text(f"for name in {names!a}: open(name, 'w')")
    (build.context / "list.py").write_text(
        "import os; print(ascii(sorted(set(os.listdir()) - {'make.py', 'list.py'})))"
    )
    assert build.look(build("COPY *.py .\nRUN python3 make.py\n"), "python3 list.py") == ascii(sorted(names))


def test_a_run_sees_neither_the_host_nor_the_network(build):
    canary = build.folder / "canary"
    canary.write_text("canary")
    (build.context / "try.py").write_text(
        "import pathlib, socket, sys\n"
        f"print('file', pathlib.Path({str(canary)!r}).exists(), pathlib.Path('/root').exists())\n"
        "try: socket.create_connection(('127.0.0.1', int(sys.argv[1])), 2); print('net')\n"
        "except OSError as e: print('none')\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        image = build(f"COPY try.py .\nRUN python3 try.py {server.getsockname()[1]} > said\n")
    assert build.look(image, "cat said") == "file False False\nnone"


def test_a_run_can_change_work_only_and_its_failure_names_the_line(build):
    with pytest.raises(SandboxError, match=r"line 3: RUN echo x > /usr/y ended with exit code 2: .*Read-only"):
        build("\nRUN echo x > /usr/y\n")
    assert not list((build.folder / "layers").glob("[!.]*"))


def test_what_a_run_left_running_ends_with_it(build):
    image = build("RUN (sleep 30; echo late > late) & echo x > f\n")
    assert build.look(image, "ls") == "f"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("EXPOSE 80", "line 2: EXPOSE 80"),
        ("# note\n\nENV A=1 \\\n  B=2\nVOLUME /x", "line 6: VOLUME /x"),
        ("RUN --mount=type=cache x", "line 2: RUN --mount"),
        ("COPY --from=x a b", "line 2: COPY --from"),
        ("RUN cat <<EOF > x", "line 2: RUN with a here-document"),
        ("ADD https://x y", "line 2: ADD https://x y"),
        ("FROM burnish/host\nRUN x\nFROM burnish/host", "line 3: FROM burnish/host is a second stage"),
        ("FROM ubuntu:24.04", r"line 1: FROM 'ubuntu:24.04' is no known root; there are: burnish/host"),
        ("WORKDIR /app", "line 2: WORKDIR '/app' is outside of /work"),
        ("COPY x /etc/", "line 2: COPY to '/etc/' is outside of /work"),
        ("WORKDIR ../..", "line 2: WORKDIR '../..' is outside of /work"),
    ],
)
def test_what_needs_an_engine_is_refused_with_its_line_and_a_way_out(tmp_path, text, words):
    made = building.build(
        HEAD + text if not text.startswith("FROM") else text,
        context=tmp_path,
        places=LocalPlaces(),
        kept_in=tmp_path / "layers",
    )
    with pytest.raises(SandboxError, match=f"^needs a container backend: {words}.*; .*"):
        asyncio.run(made)


@pytest.fixture
def context(tmp_path) -> Path:
    (tmp_path / "secret").write_text("secret")
    made = tmp_path / "context"
    (made / "d/sub").mkdir(parents=True)
    (made / "d/sub/f").write_text("f")
    (made / "d/in").symlink_to("sub/f")
    (made / "out").symlink_to("../secret")
    (made / "folder").symlink_to("d")
    (made / "bad").mkdir()
    (made / "bad/link").symlink_to("../../secret")
    (made / "root").mkdir()
    (made / "root/link").symlink_to("/etc/passwd")
    (made / "special").mkdir()
    os.mkfifo(made / "special/fifo")
    return made


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("../secret", "leads out"),
        ("d/../../secret", "leads out"),
        ("out", "is a link"),
        ("o*", "is a link"),
        ("folder/sub", "is a link"),
        ("f*/sub", "is a link"),
        ("bad", "link out of what is copied"),
        ("root", "link out of what is copied"),
        ("special", "no file, folder or link"),
        ("nothing", "nothing of that name"),
        ("x*", "nothing of that name"),
        ("https://x/y", "an address"),
    ],
)
def test_a_copy_does_not_leave_its_context(context, source, words):
    with pytest.raises(SandboxError, match=f"line 7: .*{words}"):
        copying.items(context, [source], "x/", (), 7)


@pytest.mark.parametrize(
    ("sources", "target", "made"),
    [
        (["d"], "x", ["x", "x/in", "x/sub", "x/sub/f"]),
        (["d/sub/f"], "x", ["x"]),
        (["d/sub/f"], "x/", ["x/f"]),
        (["/d/s*/?"], "", ["f"]),
        (["d/sub/f", "d/sub"], "x/", ["x", "x/f"]),
    ],
)
def test_a_copy_lands_where_docker_puts_it(context, sources, target, made):
    assert sorted(item.target for item in copying.items(context, sources, target, (), 1)) == made


def test_a_copy_goes_through_no_link_of_a_layer_below(context, tmp_path):
    layer = tmp_path / "layer"
    layer.mkdir()
    (layer / "x").symlink_to(tmp_path)
    with pytest.raises(SandboxError, match="'/work/x' is a link; name the folder"):
        copying.items(context, ["d/sub/f"], "x/y", (layer,), 1)


def test_a_context_with_an_ignore_file_is_refused(context):
    (context / ".dockerignore").write_text("secret\n")
    with pytest.raises(
        SandboxError, match=r"^needs a container backend: line 1: a context with a \.dockerignore; give a context"
    ):
        copying.items(context, ["d"], "x", (), 1)


def archive(*members: tuple[str, bytes, str]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, kind, pointed in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.mode = kind, pointed, 0o6777
            tar.addfile(info)
    return made.getvalue()


@pytest.mark.parametrize(
    "members",
    [
        [("../x", tarfile.REGTYPE, "")],
        [("/tmp/x", tarfile.REGTYPE, "")],
        [("a", tarfile.SYMTYPE, ".."), ("a/x", tarfile.REGTYPE, "")],
        [("a", tarfile.SYMTYPE, ".."), ("a/x", tarfile.SYMTYPE, "y")],
        [("a", tarfile.LNKTYPE, "../secret")],
        [("a", tarfile.LNKTYPE, "/etc/passwd")],
        [("a", tarfile.CHRTYPE, "")],
        [("a", tarfile.FIFOTYPE, "")],
        [(f"f{number}", tarfile.REGTYPE, "") for number in range(9)],
    ],
)
def test_a_forged_archive_writes_nothing_outside(tmp_path, members):
    (tmp_path / "tree").mkdir()
    (tmp_path / "secret").write_text("secret")
    with pytest.raises(SandboxError):
        capture.unpack(archive(*members), tmp_path / "tree", capture.Cap(1000, 8))
    assert sorted(os.listdir(tmp_path)) == ["secret", "tree"]


def test_rights_beyond_rwx_are_dropped(tmp_path):
    capture.unpack(archive(("a", tarfile.REGTYPE, "")), tmp_path, capture.Cap(1000, 8))
    assert os.stat(tmp_path / "a").st_mode & 0o7777 == 0o777


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a  b", ["a", "b"]),
        ('"a b" c\\ d', ["a b", "c d"]),
        ("'$X' \"$X\" ${X}y \\$X", ["$X", "1", "1y", "$X"]),
        ("${Y:-d e} ${X:+s} ${Y:+s}", ["d e", "s", ""]),
        ('"\\$X \\" ok"', ['$X " ok']),
    ],
)
def test_words_are_cut_and_expanded_as_docker_does(text, words):
    assert dockerfile.split(text, {"X": "1"}, 1) == words


def test_a_quote_without_its_other_half_names_the_line():
    with pytest.raises(SandboxError, match="line 5: a quote"):
        dockerfile.split('a "b', {}, 5)


def test_a_root_of_ones_own_is_used_and_known_by_its_times(build):
    root = build.folder / "root"
    programs = [shutil.which(name) for name in ("sh", "tar", "find", "cat")]
    said = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True).stdout
    for path in {*programs, "/bin/sh", *re.findall(r"(/\S+) \(", said)}:
        target = root / str(path)[1:]
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(str(path), target)
    (root / "usr/lib").mkdir(parents=True, exist_ok=True)
    text = "FROM mine:1\nRUN echo /usr/bin/* > said\n"
    image = build(text, roots={"mine:1": root})
    assert image.rootfs == root and "/usr/bin/python3" not in build.look(image, "cat said").split()
    assert hits(build(text, roots={"mine:1": root})) == [True]
    os.utime(root / "usr/lib", (1, 1))
    assert hits(build(text, roots={"mine:1": root})) == [False]
