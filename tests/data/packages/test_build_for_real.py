"""The builder end to end: an sdist becomes tasks that their oracles solve; installed and vendored copies are found."""

import asyncio
import hashlib

import pytest

from burnish.data.packages import fetch
from burnish.data.packages.build import build
from burnish.data.packages.catalogue import lay_out
from burnish.data.packages.copies import copies
from burnish.domains.terminal import package_tasks
from burnish.domains.terminal.store import open_store
from burnish.domains.terminal.store_writer import writing
from burnish.sandbox import missing, open_box
from tests.data.packages import tiny
from tests.domains.terminal.solving import outcome

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing()), reason="this host cannot isolate"),
    pytest.mark.timeout(600),
]


def test_an_sdist_becomes_tasks_that_their_oracles_solve(tmp_path):
    pytest.importorskip("coverage")
    content = tiny.archive()
    (tmp_path / "tiny-1.0.tar.gz").write_bytes(content)
    package = tiny.package(hashlib.sha256(content).hexdigest())

    async def run() -> None:
        tree = lay_out(package, fetch.sdist(package, tmp_path, "http://127.0.0.1:9"))
        async with open_box() as box:
            made = await build(tree, 3, 0, box, package_tasks.runner(tree, box), tmp_path / "work")
            assert made.summary.num_tests == len(tiny.IDS) and len(made.kept) == 3
            with writing(tmp_path / "store") as writer:
                base = writer.add_base(tree.files)
                for trial in made.kept:
                    writer.add(package_tasks.split_of(tree, trial), package_tasks.task_of(tree, trial, base))
            store = open_store(tmp_path / "store")
            for split, number in [(one, at) for one in ("train", "eval") for at in range(store.size(one))]:
                task = store.task(split, number)
                folder = store.base_folder(task.base)
                solved, said = await outcome(box, task, task.oracle, folder)
                assert solved == 1.0, f"{task.instruction}\n{said}"
                assert (await outcome(box, task, (), folder))[0] == 0.0

    asyncio.run(run())


def test_copies_that_a_place_sees_are_found():
    trees = [
        tiny.tree(),
        tiny.tree(name="jinja2", modules=["jinja2"], moves={"src/tiny": "jinja2", "tests": "tests"}),
        tiny.tree(name="vendored", modules=["tomli"], moves={"src/tiny/core.py": "tomli/_parser.py", "tests": "tests"}),
    ]

    async def run() -> dict[str, str]:
        async with open_box(num_workers=1) as box:
            return await copies(trees, box)

    found = asyncio.run(run())
    assert found["jinja2"] == "jinja2" and found["vendored"].endswith(("tomli/_parser.py", ".whl", ".pyc"))
    assert "tiny" not in found
